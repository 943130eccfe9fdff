-- The next groups of some actions in the order of their hashes, and the first tasks of each that may be
-- owned: hops from one group to the next, however many tasks each has.
-- Parameters: $1 queue, $2 actions, $3 the first hash that counts, $4 the last one, $5 how many groups
--   of each action, $6 how many tasks of each group, $7 whether the queue has aging: as many of each
--   priority, as in search_levels.sql.
-- Result: id, priority, created, timeout, run_at, where the row is, the action, the group's hash, and
--   which of the action's groups it is. A group that is full, or of which all tasks are held, has one
--   row without a task.
-- Reads scylla.task through the index task_group_lane, of each lane the tasks that are held before the
--   last one that is not; changes and locks nothing. The rows are compared as a whole because other
--   indexes have the hashes, too, but not the actions. A search in an index begins by the condition on
--   the hash alone.
with recursive next (action, hash, number) as (
    select a.action, f.hash, 1::bigint
    from unnest($2) as a (action)
    cross join lateral (
        select scylla._group_hash(t.group_key) as hash
        from scylla.task t
        where t.queue = $1
            and t.action = a.action
            and t.ready
            and not t.behind
            and t.group_key is not null
            and (t.queue, t.action, scylla._group_hash(t.group_key)) >= ($1, a.action, $3)
            and scylla._group_hash(t.group_key) >= $3
            and scylla._group_hash(t.group_key) <= $4
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    ) f
    union all
    select l.action, n.hash, l.number + 1
    from next l
    cross join lateral (
        select scylla._group_hash(t.group_key) as hash
        from scylla.task t
        where t.queue = $1
            and t.action = l.action
            and t.ready
            and not t.behind
            and t.group_key is not null
            and (t.queue, t.action, scylla._group_hash(t.group_key)) > ($1, l.action, l.hash)
            and scylla._group_hash(t.group_key) > l.hash
            and scylla._group_hash(t.group_key) <= $4
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    ) n
    where l.number < $5
)
select t.id, t.priority, t.created, t.timeout, t.run_at, t.tid, g.action, g.hash, g.number
from (
    select n.*, scylla._group_may_run($1, n.hash) as may_run from next n
) g
left join lateral (
    (
        select t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid as tid
        from scylla.task t
        where g.may_run
            and not $7
            and t.queue = $1
            and t.action = g.action
            and t.ready
            and not t.behind
            and t.group_key is not null
            and scylla._group_hash(t.group_key) = g.hash
            and scylla._may_own(t.id, t.xmin)
        order by -t.priority, t.created, t.id
        limit $6
    )
    union all
    select f.*
    from (
        with recursive level (rank, above, last) as (
            (
                select -t.priority, 0::bigint, 9223372036854775807
                from scylla.task t
                where g.may_run
                    and $7
                    and t.queue = $1
                    and t.action = g.action
                    and t.ready
                    and not t.behind
                    and t.group_key is not null
                    and scylla._group_hash(t.group_key) = g.hash
                order by -t.priority
                limit 1
            )
            union all
            select n.rank, e.above, e.last
            from level l
            cross join lateral (
                select
                    l.above + pg_catalog.count(*) as above,
                    case
                        when l.above < $6 and l.above + pg_catalog.count(*) >= $6 then l.rank + 255
                        else l.last
                    end as last
                from (
                    select
                    from scylla.task t
                    where t.queue = $1
                        and t.action = g.action
                        and t.ready
                        and not t.behind
                        and t.group_key is not null
                        and scylla._group_hash(t.group_key) = g.hash
                        and -t.priority = l.rank
                        and scylla._may_own(t.id, t.xmin)
                    limit $6 - l.above
                ) t
            ) e
            cross join lateral (
                select -t.priority as rank
                from scylla.task t
                where t.queue = $1
                    and t.action = g.action
                    and t.ready
                    and not t.behind
                    and t.group_key is not null
                    and scylla._group_hash(t.group_key) = g.hash
                    and -t.priority > l.rank
                    and -t.priority <= e.last
                order by -t.priority
                limit 1
            ) n
        )
        select o.*
        from level l
        cross join lateral (
            select t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid as tid
            from scylla.task t
            where t.queue = $1
                and t.action = g.action
                and t.ready
                and not t.behind
                and t.group_key is not null
                and scylla._group_hash(t.group_key) = g.hash
                and -t.priority = l.rank
                and scylla._may_own(t.id, t.xmin)
            order by t.created, t.id
            limit $6
        ) o
    ) f
) t on true
