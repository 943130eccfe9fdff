-- The live tasks that a filter takes, but for whether a worker owns them.
-- Parameters: those of a filter.
-- Result: id, queue, whether it is ready; in no order.
-- Reads scylla.task through the index task_key if the filter has a key, through task_first, task_behind and
--   task_group if it has a queue and a group, else through an index of each part; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
with part as (
    select t.* from scylla.task t where t.key = $4 -- if key
    select t.* from scylla.task t where (t.ready or t.held) and not t.behind -- if by_group
        and t.queue = $1 and t.group_key is not null and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash($3) -- if by_group
    union all -- if by_group
    select t.* from scylla.task t where t.behind -- if by_group
        and t.queue = $1 and t.group_key is not null and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash($3) -- if by_group
    union all -- if by_group
    select t.* from scylla.task t where not (t.ready or t.held) and t.group_key is not null -- if by_group
        and t.queue = $1 and scylla._group_hash(t.group_key) = scylla._group_hash($3) -- if by_group
    select t.* from scylla.task t where t.ready and not t.behind and t.group_key is null -- if by_queue
    union all -- if by_queue
    select t.* from scylla.task t where t.ready and not t.behind and t.group_key is not null -- if by_queue
    union all -- if by_queue
    select t.* from scylla.task t where t.behind -- if by_queue
    union all -- if by_queue
    select t.* from scylla.task t where not t.ready and not t.behind -- if by_queue
)
select t.id, t.queue, t.ready
from part t
where true
    and t.queue = $1 -- if queue
    and t.action = $2 -- if action
    and t.group_key = $3 -- if group_key
    and t.created < $6 -- if created_before
    and t.created > $7 -- if created_after
    and t.spec @> $8 -- if spec
    and t.meta @> $9 -- if meta
    and t.ready -- if is_ready
    and not t.ready -- if is_waiting
