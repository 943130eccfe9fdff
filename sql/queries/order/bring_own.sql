-- Brings the next tasks of groups forward whose first task this transaction has settled.
-- Parameters: $1 a queue that keeps the order, $2 hashes of the groups' keys, $3 actions that count, null:
--   all; $4 the only task that counts, null: all; $5 the hash of the tasks without a group.
-- Result: of each task that came id, priority, created, timeout, run_at, where the row is, the action, the
--   hash of its group, null if it is in none.
-- Reads scylla.task through the indexes task_behind, task_first and task_lane; changes scylla.task. Never
--   waits for a row.
with next as materialized (
    select b.ctid
    from unnest($2) as n (hash)
    cross join lateral (
        select t.id, t.ctid, t.action, t.ready
        from scylla.task t
        where t.queue = $1 and t.behind and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
        order by t.created, t.id
        limit 1
    ) b
    where b.ready
        and ($3 is null or b.action = any ($3))
        and ($4 is null or b.id = $4)
        and not exists (
            select
            from scylla.task t
            where t.queue = $1
                and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
                and (t.ready or t.held)
                and not t.behind
                and (t.group_key is not null or t.held)
        )
        and (n.hash <> $5 or not exists (
            select
            from scylla.task t
            where t.queue = $1 and t.ready and not t.behind and t.group_key is null
        ))
), free as (
    select l.ctid
    from next x
    cross join lateral (
        select o.ctid from scylla.task o where o.ctid = x.ctid and o.behind and o.ready
        offset 0
        for no key update skip locked
    ) l
)
update scylla.task t
set behind = false
where t.ctid = any (array(select f.ctid from free f))
returning t.id, t.priority, t.created, t.timeout, t.run_at, t.ctid, t.action,
    scylla._group_hash(t.group_key)
