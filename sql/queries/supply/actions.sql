-- The actions of a queue that have ready tasks: hops from one to the next, however many tasks each has.
-- Parameters: $1 queue. Result: the actions; one that has tasks of both kinds once.
-- Reads scylla.task through the indexes task_lane and task_group_lane; changes and locks nothing.
with recursive plain (action) as (
    (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null and t.queue = $1
        order by t.queue, t.action
        limit 1
    )
    union all
    select n.action
    from plain p
    cross join lateral (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null and t.queue = $1 and t.action > p.action
        order by t.queue, t.action
        limit 1
    ) n
), grouped (action) as (
    (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is not null and t.queue = $1
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    )
    union all
    select n.action
    from grouped g
    cross join lateral (
        select t.action
        from scylla.task t
        where t.ready and not t.behind and t.group_key is not null and t.queue = $1 and t.action > g.action
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    ) n
)
select p.action from plain p
union
select g.action from grouped g
