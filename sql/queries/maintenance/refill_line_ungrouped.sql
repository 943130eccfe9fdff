-- As refill_line.sql, of the line of the tasks without a group: merges those of each action and
-- priority.
-- Parameters: $1 queue, $2 created, $3 id of the first rank that counts, $4 how many.
-- Result: as of refill_line.sql.
-- Reads scylla.task through the indexes task_lane and task_waiting, no row before the cursor; changes
--   and locks nothing.
with recursive lane (action, rank) as (
    (
        select t.action, - t.priority
        from scylla.task t
        where t.ready and t.group_key is null and t.queue = $1
        order by t.action, - t.priority
        limit 1
    )
    union all
    select n.action, n.rank
    from lane l
    cross join lateral (
        select t.action, - t.priority as rank
        from scylla.task t
        where t.ready
            and t.group_key is null
            and t.queue = $1
            and (t.action, - t.priority) > (l.action, l.rank)
        order by t.action, - t.priority
        limit 1
    ) n
)
select p.id, p.priority, p.created, p.timeout, p.xmin, p.run_at, p.ctid, p.action, p.ready
from (
    select r.*
    from lane l
    cross join lateral (
        select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid, t.action, t.ready
        from scylla.task t
        where t.queue = $1
            and t.action = l.action
            and t.ready
            and t.group_key is null
            and - t.priority = l.rank
            and (t.created, t.id) >= ($2, $3)
        order by t.created, t.id
        limit $4
    ) r
    union all
    (
        select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid, t.action, t.ready
        from scylla.task t
        where t.queue = $1
            and not t.ready
            and t.held
            and t.group_key is null
            and (t.created, t.id) >= ($2, $3)
        order by t.created, t.id
        limit $4
    )
) p
order by p.created, p.id
limit $4
