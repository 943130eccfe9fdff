-- Removes a queue of the schema pgmq, and its topics.
-- Parameters: $1 queue. Result: if it was there, one row with the command that drops its views, null
--   where they are not there.
-- Changes scylla.message_queue and scylla.message_topic. Locks the rows.
with topics as (
    delete from scylla.message_topic t where t.queue = $1
), gone as (
    delete from scylla.message_queue q where q.queue = $1 returning q.queue
)
select (
    select 'drop view ' || pg_catalog.string_agg(
        pg_catalog.format('pgmq.%I', c.relname), ', ' order by c.relname)
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'pgmq' and c.relkind = 'v'
        and c.relname = any (array['q_' || g.queue, 'a_' || g.queue]::pg_catalog.name[])
)
from gone g
