-- The lanes of ready tasks without a group, with the newest task of each.
-- Parameters: those of a filter; $11 the first and $12 the last queue, $13 how many lanes at most.
-- Result: queue, action, rank (the priority, negated), and when the newest was submitted.
-- Reads scylla.task through the index task_lane, a hop for each lane; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
with recursive lane as (
    (
        select t.queue, t.action, - t.priority as rank
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
            and t.queue >= $11 and t.queue <= $12 -- if any_queue
            and t.queue = $1 -- if queue
            and t.action = $2 -- if lane_action
        order by t.queue, t.action, - t.priority
        limit 1
    )
    union all
    select n.queue, n.action, n.rank
    from lane l
    cross join lateral (
        select t.queue, t.action, - t.priority as rank
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
            and t.queue <= $12 and (t.queue, t.action, - t.priority) > (l.queue, l.action, l.rank) -- if any_queue
            and t.queue = $1 and (t.action, - t.priority) > (l.action, l.rank) -- if any_action
            and t.queue = $1 and t.action = $2 and - t.priority > l.rank -- if lane_action
        order by t.queue, t.action, - t.priority
        limit 1
    ) n
)
select l.queue, l.action, l.rank, n.created
from (select * from lane limit $13) l
cross join lateral (
    select t.created
    from scylla.task t
    where t.ready and not t.behind and t.group_key is null
        and t.queue = l.queue and t.action = l.action and - t.priority = l.rank
    order by t.created desc, t.id desc
    limit 1
) n
