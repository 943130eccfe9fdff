-- The lanes of groups that have ready tasks: hops from one lane to the next, however many tasks each
-- has.
-- Parameters: $1 queue, $2 whether the queues behind it count, too, $3 how many at most; null: all.
-- Result: queue, action; in a queue with aging also the priority, else null; the group's hash.
-- Reads scylla.task through the index task_group_lane and scylla.queue by primary key; changes and
--   locks nothing.
with recursive lane (queue, action, hash, priority) as (
    (
        select t.queue, t.action, scylla._group_hash(t.group_key), t.priority
        from scylla.task t
        where t.ready and not t.behind and t.group_key is not null and t.queue >= $1
        order by t.queue, t.action, scylla._group_hash(t.group_key), -t.priority
        limit 1
    )
    union all
    select n.queue, n.action, n.hash, n.priority
    from (
        select l.*, exists (
            select from scylla.queue q where q.queue = l.queue and q.aging is not null
        ) as ages
        from lane l
        where $2 or l.queue = $1
    ) l
    cross join lateral (
        (
            select t.queue, t.action, scylla._group_hash(t.group_key) as hash, t.priority
            from scylla.task t
            where l.ages
                and t.ready
                and not t.behind
                and t.group_key is not null
                and (t.queue, t.action, scylla._group_hash(t.group_key), -t.priority)
                    > (l.queue, l.action, l.hash, -l.priority)
            order by t.queue, t.action, scylla._group_hash(t.group_key), -t.priority
            limit 1
        )
        union all
        (
            select t.queue, t.action, scylla._group_hash(t.group_key) as hash, t.priority
            from scylla.task t
            where not l.ages
                and t.ready
                and not t.behind
                and t.group_key is not null
                and (t.queue, t.action, scylla._group_hash(t.group_key))
                    > (l.queue, l.action, l.hash)
            order by t.queue, t.action, scylla._group_hash(t.group_key), -t.priority
            limit 1
        )
    ) n
)
select l.queue, l.action, case when q.aging is not null then l.priority end, l.hash
from lane l
left join scylla.queue q on q.queue = l.queue
where $2 or l.queue = $1
limit $3
