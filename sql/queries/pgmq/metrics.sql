-- The numbers of a queue.
-- Parameters: $1 queue. Result: how many messages it has, the ages of the newest and of the oldest in seconds,
--   how many were sent, now, how many are visible.
-- Reads scylla.task by its indexes of queues, the board, and what is counted; changes and locks nothing.
with live as (
    select t.id, t.created, t.ready
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is null
    union all
    select t.id, t.created, t.ready
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is not null
    union all
    select t.id, t.created, t.ready
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.behind
    union all
    select t.id, t.created, t.ready
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and not t.ready and not t.behind
)
select pg_catalog.count(*),
    extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.max(t.created))::integer,
    extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.min(t.created))::integer,
    (select coalesce(pg_catalog.max(s.submitted), 0) from scylla.stats s where s.queue = $1),
    pg_catalog.now(),
    pg_catalog.count(*) filter (where t.ready and l.id is null)
from live t
left join scylla._leases() l on l.id = t.id
