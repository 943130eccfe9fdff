-- The actions of one queue that have ready tasks: hops from one to the next, however many tasks
-- each has.
-- Parameters: $1 queue. Result: queue, action.
-- Reads scylla.task through the index task_lane; changes and locks nothing.
with recursive lane (action) as (
    (
        select t.action
        from scylla.task t
        where t.ready and t.queue = $1
        order by t.queue, t.action
        limit 1
    )
    union all
    select n.action
    from lane l
    cross join lateral (
        select t.action
        from scylla.task t
        where t.ready and t.queue = $1
            and t.action > l.action
        order by t.queue, t.action
        limit 1
    ) n
)
select $1, l.action from lane l
