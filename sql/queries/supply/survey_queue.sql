-- The actions of one queue that have ready tasks without a group: hops from one to the next,
-- however many tasks each has.
-- Parameters: $1 queue, $2 how many at most. Result: queue, action; in a queue with aging also the priority, else null;
--   null.
-- Reads scylla.task through the index task_lane and scylla.queue by primary key; changes and locks
--   nothing.
with recursive queue (ages) as (
    select exists (select from scylla.queue q where q.queue = $1 and q.aging is not null)
), lane (action, priority) as (
    (
        select t.action, t.priority
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null and t.queue = $1
        order by t.queue, t.action, -t.priority
        limit 1
    )
    union all
    select n.action, n.priority
    from lane l
    cross join queue q
    cross join lateral (
        (
            select t.action, t.priority
            from scylla.task t
            where q.ages
                and t.ready
                and not t.behind
                and t.group_key is null
                and t.queue = $1
                and (t.action, -t.priority) > (l.action, -l.priority)
            order by t.queue, t.action, -t.priority
            limit 1
        )
        union all
        (
            select t.action, t.priority
            from scylla.task t
            where not q.ages
                and t.ready
                and not t.behind
                and t.group_key is null
                and t.queue = $1
                and t.action > l.action
            order by t.queue, t.action, -t.priority
            limit 1
        )
    ) n
)
select $1, l.action, case when q.ages then l.priority end, null
from lane l
cross join queue q
limit $2
