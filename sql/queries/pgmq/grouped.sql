-- The messages of the groups whose first message is visible.
-- Parameters: $1 queue, $2 the order: grouped, group by group; grouped_rr, by the position in the group; grouped_head, the first of
--   each; $3 how many.
-- Result: ids, in that order.
-- Reads scylla.task by its indexes of queues, and the board; changes and locks nothing.
with live as materialized (
    select t.id, t.ready and l.id is null as is_visible,
        coalesce(t.meta ->> 'x-pgmq-group', '_default_fifo_group') as group_key
    from scylla._live($1) t
    left join scylla._leases() l on l.id = t.id
    where t.action = 'pgmq'
), firsts as (
    select distinct on (i.group_key) i.group_key, i.id, i.is_visible
    from live i
    order by i.group_key, i.id
), visible as (
    select i.id, f.id as first,
        pg_catalog.row_number() over (partition by i.group_key order by i.id) as position
    from live i
    join firsts f on f.group_key = i.group_key and f.is_visible
    where i.is_visible
)
select v.id
from visible v
where $2 <> 'grouped_head' or v.position = 1
order by case when $2 = 'grouped_rr' then v.position end, v.first, v.position
limit $3
