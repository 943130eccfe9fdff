-- As search.sql, of a queue with aging: the first tasks of each priority. A task gains 255 points at
-- most: priorities more than that below enough tasks cannot come before these, and are left out.
-- Parameters: $1 queue, $2 actions, $3 how many of each action and priority.
-- Result: as of search.sql.
-- Reads scylla.task through the index task_lane, of each lane the tasks that are held before the last
--   one that is not; changes and locks nothing.
with recursive level (action, rank, above, last) as (
    select a.action, f.rank, 0::bigint, 9223372036854775807
    from unnest($2) as a (action)
    cross join lateral (
        select -t.priority as rank
        from scylla.task t
        where t.queue = $1 and t.action = a.action and t.ready and not t.behind and t.group_key is null
        order by -t.priority
        limit 1
    ) f
    union all
    select l.action, n.rank, e.above, e.last
    from level l
    cross join lateral (
        select
            l.above + pg_catalog.count(*) as above,
            case
                when l.above < $3 and l.above + pg_catalog.count(*) >= $3 then l.rank + 255
                else l.last
            end as last
        from (
            select
            from scylla.task t
            where t.queue = $1
                and t.action = l.action
                and t.ready
                and not t.behind
                and t.group_key is null
                and -t.priority = l.rank
                and scylla._may_own(t.id, t.xmin)
            limit $3 - l.above
        ) t
    ) e
    cross join lateral (
        select -t.priority as rank
        from scylla.task t
        where t.queue = $1
            and t.action = l.action
            and t.ready
            and not t.behind
            and t.group_key is null
            and -t.priority > l.rank
            and -t.priority <= e.last
        order by -t.priority
        limit 1
    ) n
)
select t.id, t.priority, t.created, t.timeout, t.run_at, t.tid, l.action
from level l
cross join lateral (
    select t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid as tid
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
