-- As search.sql, of a queue with aging: the first tasks of each priority.
-- Parameters: $1 queue, $2 actions, $3 how many of each action and priority.
-- Result: as of search.sql.
-- Reads scylla.task through the index task_lane, of each lane the tasks that are held before the last
--   one that is not; changes and locks nothing.
with recursive level (action, rank) as (
    select a.action, f.rank
    from unnest($2) as a (action)
    cross join lateral (
        select -t.priority as rank
        from scylla.task t
        where t.queue = $1 and t.action = a.action and t.ready and not t.behind and t.group_key is null
        order by -t.priority
        limit 1
    ) f
    union all
    select l.action, n.rank
    from level l
    cross join lateral (
        select -t.priority as rank
        from scylla.task t
        where t.queue = $1
            and t.action = l.action
            and t.ready
            and not t.behind
            and t.group_key is null
            and -t.priority > l.rank
        order by -t.priority
        limit 1
    ) n
)
select t.id, t.priority, t.created, t.timeout, t.run_at, t.place, l.action
from level l
cross join lateral (
    select t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid as place
    from scylla.task t
    where t.queue = $1
        and t.action = l.action
        and t.ready
        and not t.behind
        and t.group_key is null
        and -t.priority = l.rank
        and scylla._may_own(t.id, t.xmin)
    order by t.created, t.id
    limit $3
) t
