-- The queues that have tasks that wait, apart those that keep their position, with the newest of them.
-- Parameters: those of a filter; $11 the first and $12 the last queue, $13 how many queues at most.
-- Result: queue, an empty action, whether they keep their position (1), and when the newest was submitted.
-- Reads scylla.task through the index task_waiting, a hop for each; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
with recursive here as (
    (
        select t.queue, t.held
        from scylla.task t
        where not t.ready
            and t.queue >= $11 and t.queue <= $12 -- if any_queue
            and t.queue = $1 -- if queue
        order by t.queue, t.held
        limit 1
    )
    union all
    select n.queue, n.held
    from here h
    cross join lateral (
        select t.queue, t.held
        from scylla.task t
        where not t.ready
            and t.queue <= $12 and (t.queue, t.held) > (h.queue, h.held) -- if any_queue
            and t.queue = $1 and t.held > h.held -- if queue
        order by t.queue, t.held
        limit 1
    ) n
)
select h.queue, '', h.held::integer::bigint, n.created
from (select * from here limit $13) h
cross join lateral (
    select t.created
    from scylla.task t
    where not t.ready and t.queue = h.queue and t.held = h.held
    order by t.created desc, t.id desc
    limit 1
) n
