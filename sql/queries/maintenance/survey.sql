-- The lanes that have ready tasks: hops from one lane to the next, however many tasks each has.
-- No parameters. Result: queue, action.
-- Reads scylla.task through the index task_lane; changes and locks nothing.
with recursive lane (queue, action) as (
    (select t.queue, t.action from scylla.task t where t.ready order by t.queue, t.action limit 1)
    union all
    select n.queue, n.action
    from lane l
    cross join lateral (
        select t.queue, t.action
        from scylla.task t
        where t.ready and (t.queue, t.action) > (l.queue, l.action)
        order by t.queue, t.action
        limit 1
    ) n
)
select l.queue, l.action from lane l
