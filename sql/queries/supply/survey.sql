-- The lanes of tasks without a group that have ready tasks: hops from one lane to the next, however many tasks each has.
-- No parameters. Result: queue, action; in a queue with aging also the priority, else null; null;
--   and without aging id, priority and created of the first task that is not owned, null if all are.
-- Reads scylla.task through the index task_lane, of each lane the tasks that are owned before the
--   first one that is not, and scylla.queue by primary key; changes and locks nothing.
with recursive lane (queue, action, priority) as (
    (
        select t.queue, t.action, t.priority
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
        order by t.queue, t.action, -t.priority
        limit 1
    )
    union all
    select n.queue, n.action, n.priority
    from (
        select l.*, exists (
            select from scylla.queue q where q.queue = l.queue and q.aging is not null
        ) as ages
        from lane l
    ) l
    cross join lateral (
        (
            select t.queue, t.action, t.priority
            from scylla.task t
            where l.ages
                and t.ready
                and not t.behind
                and t.group_key is null
                and (t.queue, t.action, -t.priority) > (l.queue, l.action, -l.priority)
            order by t.queue, t.action, -t.priority
            limit 1
        )
        union all
        (
            select t.queue, t.action, t.priority
            from scylla.task t
            where not l.ages
                and t.ready
                and not t.behind
                and t.group_key is null
                and (t.queue, t.action) > (l.queue, l.action)
            order by t.queue, t.action, -t.priority
            limit 1
        )
    ) n
)
select l.queue, l.action, case when q.aging is not null then l.priority end, null,
    f.id, f.priority, f.created
from lane l
left join scylla.queue q on q.queue = l.queue
left join lateral (
    select t.id, t.priority, t.created
    from scylla.task t
    where t.ready
        and not t.behind
        and t.group_key is null
        and t.queue = l.queue
        and t.action = l.action
        and not scylla._is_owned(t.id)
    order by -t.priority, t.created, t.id
    limit 1
) f on q.aging is null
