-- The queues that have ready tasks without a group behind others, with the newest of them.
-- Parameters: those of a filter; $11 the first and $12 the last queue, $13 how many queues at most.
-- Result: queue, an empty action, 0, and when the newest was submitted.
-- Reads scylla.task through the index task_behind, a hop for each; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
with recursive here as (
    (
        select t.queue
        from scylla.task t
        where t.behind
            and t.queue >= $11 and t.queue <= $12 -- if any_queue
            and t.queue = $1 -- if queue
        order by t.queue
        limit 1
    )
    union all
    select n.queue
    from here h
    cross join lateral (
        select t.queue
        from scylla.task t
        where t.behind
            and t.queue > h.queue and t.queue <= $12 -- if any_queue
            and false -- if queue
        order by t.queue
        limit 1
    ) n
)
select h.queue, '', 0::bigint, n.created
from (select * from here limit $13) h
cross join lateral (
    select t.created
    from scylla.task t
    where t.behind and t.queue = h.queue
        and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash('')
    order by t.created desc, t.id desc
    limit 1
) n
