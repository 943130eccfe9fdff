-- The first tasks without a group of some lanes of a queue that may be owned.
-- Parameters: $1 queue, $2 actions, $3 how many of each.
-- Result: id, priority, created, timeout, run_at, where the row is, and the action.
-- Reads scylla.task through the index task_lane, of each lane the tasks that are held before the last
--   one that is not; changes and locks nothing.
select t.id, t.priority, t.created, t.timeout, t.run_at, t.tid, a.action
from unnest($2) as a (action)
cross join lateral (
    select t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid as tid
    from scylla.task t
    where t.queue = $1
        and t.action = a.action
        and t.ready
        and not t.behind
        and t.group_key is null
        and scylla._may_own(t.id, t.xmin)
    order by -t.priority, t.created, t.id
    limit $3
) t
