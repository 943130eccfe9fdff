-- The next actions of a queue that have ready tasks: hops from one to the next, however many tasks each
-- has.
-- Parameters: $1 queue, $2 the first action that counts, $3 how many at most.
-- Result: the actions in their order; one that has tasks of both kinds once.
-- Reads scylla.task through the indexes task_lane and task_group_lane; changes and locks nothing.
with recursive plain (action, number) as (
    (
        select t.action, 1::bigint
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null and t.queue = $1 and t.action >= $2
        order by t.queue, t.action
        limit 1
    )
    union all
    select n.action, p.number + 1
    from plain p
    cross join lateral (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null and t.queue = $1 and t.action > p.action
        order by t.queue, t.action
        limit 1
    ) n
    where p.number < $3
), grouped (action, number) as (
    (
        select t.action, 1::bigint
        from scylla.task t
        where t.ready and not t.behind and t.group_key is not null and t.queue = $1 and t.action >= $2
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    )
    union all
    select n.action, g.number + 1
    from grouped g
    cross join lateral (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is not null and t.queue = $1 and t.action > g.action
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    ) n
    where g.number < $3
)
select p.action from plain p
union
select g.action from grouped g
order by 1
limit $3
