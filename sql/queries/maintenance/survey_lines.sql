-- The lines of queues of whose groups one task runs at a time: hops from one group to the next,
-- however many tasks each has.
-- Parameters: $1 the queue; null: all. Result: queue, an empty action, null, and the group's hash;
--   null: the tasks without a group, whether there are some or not.
-- Reads scylla.task through the index task_line, and scylla.queue; changes and locks nothing.
with recursive line (queue, hash) as (
    select q.queue, null::uuid
    from scylla.queue q
    where q.max_running_per_group = 1 and ($1 is null or q.queue = $1)
    union all
    select l.queue, n.hash
    from line l
    cross join lateral (
        select scylla._group_hash(t.group_key) as hash
        from scylla.task t
        where t.queue = l.queue
            and (t.ready or t.held)
            and t.group_key is not null
            and scylla._group_hash(t.group_key)
                > coalesce(l.hash, '00000000-0000-0000-0000-000000000000')
        order by t.queue, scylla._group_hash(t.group_key)
        limit 1
    ) n
)
select l.queue, '', null::bigint, l.hash
from line l
