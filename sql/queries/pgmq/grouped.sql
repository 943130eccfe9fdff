-- The messages of the groups whose first message is visible.
-- Parameters: $1 queue, $2 the order: grouped, group by group; grouped_rr, by the place in the group; grouped_head, the first of
--   each; $3 how many.
-- Result: ids, in that order.
-- Reads scylla.task by its indexes of queues, and the board; changes and locks nothing.
with part as (
    select t.id, t.ready, t.meta
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is null
    union all
    select t.id, t.ready, t.meta
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is not null
    union all
    select t.id, t.ready, t.meta
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.behind
    union all
    select t.id, t.ready, t.meta
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and not t.ready and not t.behind
), live as materialized (
    select t.id, t.ready and l.id is null as is_visible,
        coalesce(t.meta ->> 'x-pgmq-group', '_default_fifo_group') as group_key
    from part t
    left join scylla._leases() l on l.id = t.id
), firsts as (
    select distinct on (i.group_key) i.group_key, i.id, i.is_visible
    from live i
    order by i.group_key, i.id
), visible as (
    select i.id, f.id as first,
        pg_catalog.row_number() over (partition by i.group_key order by i.id) as place
    from live i
    join firsts f on f.group_key = i.group_key and f.is_visible
    where i.is_visible
)
select v.id
from visible v
where $2 <> 'grouped_head' or v.place = 1
order by case when $2 = 'grouped_rr' then v.place end, v.first, v.place
limit $3
