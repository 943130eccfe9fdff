-- The groups that have tasks behind others: hops from one to the next, however many tasks each has.
-- Parameters: $1 queue, $2 hash of the group's key behind which to begin, $3 how many at most.
-- Result: queue, hash of the group's key.
-- Reads scylla.task through the index task_behind; changes and locks nothing.
with recursive next (queue, hash, number) as (
    (
        select t.queue, scylla._group_hash(coalesce(t.group_key, '')), 1::bigint
        from scylla.task t
        where t.behind and (t.queue, scylla._group_hash(coalesce(t.group_key, ''))) > ($1, $2)
        order by t.queue, scylla._group_hash(coalesce(t.group_key, ''))
        limit 1
    )
    union all
    select n.queue, n.hash, l.number + 1
    from next l
    cross join lateral (
        select t.queue, scylla._group_hash(coalesce(t.group_key, '')) as hash
        from scylla.task t
        where t.behind and (t.queue, scylla._group_hash(coalesce(t.group_key, ''))) > (l.queue, l.hash)
        order by t.queue, scylla._group_hash(coalesce(t.group_key, ''))
        limit 1
    ) n
    where l.number < $3
)
select n.queue, n.hash from next n
