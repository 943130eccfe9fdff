-- The next groups of an action in the order of their hashes, and the first tasks of each: hops from
-- one group to the next, however many tasks each has.
-- Parameters: $1 queue, $2 action, $3 the first hash that counts, $4 how many groups, $5 how many
--   tasks of each.
-- Result: as of refill_line.sql, and the group's hash; by group, then in the order of its lane.
-- Reads scylla.task through the index task_group_lane; changes and locks nothing. The rows are compared
--   as a whole because task_line has the hashes, too, but not the actions. A search in an index begins
--   by the condition on the hash alone.
with recursive next (hash) as (
    (
        select scylla._group_hash(t.group_key)
        from scylla.task t
        where t.queue = $1
            and t.action = $2
            and t.ready
            and t.group_key is not null
            and (t.queue, t.action, scylla._group_hash(t.group_key)) >= ($1, $2, $3)
            and scylla._group_hash(t.group_key) >= $3
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    )
    union all
    select n.hash
    from next l
    cross join lateral (
        select scylla._group_hash(t.group_key) as hash
        from scylla.task t
        where t.queue = $1
            and t.action = $2
            and t.ready
            and t.group_key is not null
            and (t.queue, t.action, scylla._group_hash(t.group_key)) > ($1, $2, l.hash)
            and scylla._group_hash(t.group_key) > l.hash
        order by t.queue, t.action, scylla._group_hash(t.group_key)
        limit 1
    ) n
)
select r.*, g.hash
from (select n.hash from next n limit $4) g
cross join lateral (
    select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid
    from scylla.task t
    where t.queue = $1
        and t.action = $2
        and t.ready
        and t.group_key is not null
        and scylla._group_hash(t.group_key) = g.hash
    order by - t.priority, t.created, t.id
    limit $5
) r
