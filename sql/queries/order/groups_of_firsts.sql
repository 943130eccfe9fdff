-- The groups of a queue that have first tasks: hops from one to the next, however many tasks each has.
-- Parameters: $1 queue, $2 hash of the group's key behind which to begin, $3 how many at most.
-- Result: hash of the group's key, and whether the group has several.
-- Reads scylla.task through the index task_first; changes and locks nothing.
with recursive next (hash, number) as (
    (
        select scylla._group_hash(coalesce(t.group_key, '')), 1::bigint
        from scylla.task t
        where t.queue = $1
            and scylla._group_hash(coalesce(t.group_key, '')) > $2
            and (t.ready or t.held)
            and not t.behind
            and (t.group_key is not null or t.held)
        order by t.queue, scylla._group_hash(coalesce(t.group_key, ''))
        limit 1
    )
    union all
    select n.hash, l.number + 1
    from next l
    cross join lateral (
        select scylla._group_hash(coalesce(t.group_key, '')) as hash
        from scylla.task t
        where t.queue = $1
            and scylla._group_hash(coalesce(t.group_key, '')) > l.hash
            and (t.ready or t.held)
            and not t.behind
            and (t.group_key is not null or t.held)
        order by t.queue, scylla._group_hash(coalesce(t.group_key, ''))
        limit 1
    ) n
    where l.number < $3
)
select n.hash, exists (
    select
    from scylla.task t
    where t.queue = $1
        and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
        and (t.ready or t.held)
        and not t.behind
        and (t.group_key is not null or t.held)
    offset 1
)
from next n
