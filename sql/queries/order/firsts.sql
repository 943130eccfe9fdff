-- The first tasks of some groups, two at most of each, and whether its queue keeps the order.
-- Parameters, arrays of one length: $1 queues, $2 hashes of the groups' keys; $3 the hash of
--   the tasks without a group.
-- Result: of each group one row, or two: its number; whether its queue keeps the order; and where it does,
--   of a first task the id, queue, action, priority, created, timeout, group_key, run_at, whether it is
--   ready, when it is due, and whether an older one is behind it; null: it has none.
-- Reads scylla.queue by primary key, and scylla.task through the indexes task_first, task_behind and
--   task_lane; changes and locks nothing.
select n.number, n.ordered, f.*, exists (
    select
    from scylla.task t
    where t.queue = n.queue
        and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
        and t.behind
        and (t.created, t.id) < (f.created, f.id)
)
from (
    select g.*, coalesce(
        (select q.max_running_per_group = 1 from scylla.queue q where q.queue = g.queue),
        false) as ordered
    from unnest($1, $2) with ordinality as g (queue, hash, number)
) n
left join lateral (
    (
        select t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key, t.run_at,
            t.ready, t.due
        from scylla.task t
        where n.ordered
            and t.queue = n.queue
            and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
            and (t.ready or t.held)
            and not t.behind
            and (t.group_key is not null or t.held)
        order by t.created, t.id
        limit 2
    )
    union all
    (
        select t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key, t.run_at,
            t.ready, t.due
        from scylla.task t
        where n.ordered
            and n.hash = $3
            and t.queue = n.queue
            and t.ready
            and not t.behind
            and t.group_key is null
        limit 2
    )
) f on true
order by n.number, f.created, f.id
