-- As read_groups.sql, of a queue that keeps the order: whatever the tasks' actions.
-- Parameters: $1 queue, $2 the first hash that counts, $3 how many groups, $4 how many tasks of each.
-- Result: as of read_groups.sql, in the order of the line.
-- Reads scylla.task through the index task_line; changes and locks nothing.
with recursive next (hash) as (
    (
        select scylla._group_hash(t.group_key)
        from scylla.task t
        where t.queue = $1
            and (t.ready or t.held)
            and t.group_key is not null
            and scylla._group_hash(t.group_key) >= $2
        order by scylla._group_hash(t.group_key)
        limit 1
    )
    union all
    select n.hash
    from next l
    cross join lateral (
        select scylla._group_hash(t.group_key) as hash
        from scylla.task t
        where t.queue = $1
            and (t.ready or t.held)
            and t.group_key is not null
            and scylla._group_hash(t.group_key) > l.hash
        order by scylla._group_hash(t.group_key)
        limit 1
    ) n
)
select r.*, g.hash
from (select n.hash from next n limit $3) g
cross join lateral (
    select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid, t.action, t.ready
    from scylla.task t
    where t.queue = $1
        and (t.ready or t.held)
        and t.group_key is not null
        and scylla._group_hash(t.group_key) = g.hash
    order by t.created, t.id
    limit $4
) r
