-- Since when the oldest task of each queue is ready that no worker owns: of each action and priority the
-- first, of these the oldest; of all groups together the first, and of those without a group that stand behind one.
-- Parameters: $1 the queues in the order of their names. Result: a queue and a time, or null.
-- Reads scylla.task through the indexes task_lane, from the first queue to the last a row for each action and
--   priority, from where the board goes on, and the rows of lower priorities that are owned, and
--   task_group_age, the rows that are owned up to the first one that is not, and task_behind; changes and locks nothing.
with recursive head as (
    (
        select t.queue, t.action, - t.priority as rank
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
            and t.queue >= $1[1] and t.queue <= $1[cardinality($1)]
        order by t.queue, t.action, - t.priority
        limit 1
    )
    union all
    select n.queue, n.action, n.rank
    from head h
    cross join lateral (
        select t.queue, t.action, - t.priority as rank
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
            and (t.queue, t.action, - t.priority) > (h.queue, h.action, h.rank)
            and t.queue <= $1[cardinality($1)]
        order by t.queue, t.action, - t.priority
        limit 1
    ) n
), lane as (
    select h.queue, min(o.since) as since
    from head h
    left join lateral scylla._front(h.queue, h.action, - h.rank) f on true
    cross join lateral (
        select greatest(t.created, t.run_at) as since
        from scylla.task t
        where t.ready and not t.behind and t.group_key is null
            and t.queue = h.queue and t.action = h.action and - t.priority = h.rank
            -- A comparison that begins with the priority would not lead to a place in the index, since the
            -- priority is given.
            and (t.created, t.id) >= (
                case
                    when - f.lowest = h.rank then f.created
                    when - f.lowest > h.rank then 'infinity'
                    else '-infinity'
                end,
                case
                    when - f.lowest = h.rank then f.id
                    else '00000000-0000-0000-0000-000000000000'
                end)
            and not scylla._is_owned(t.id)
        order by t.created, t.id
        limit 1
    ) o
    group by h.queue
)
select q.queue, least(l.since, (
    select greatest(t.created, t.run_at)
    from scylla.task t
    where t.ready
        and t.group_key is not null
        and t.queue = q.queue
        and not scylla._is_owned(t.id)
    order by t.created, t.id
    limit 1
), (
    select greatest(t.created, t.run_at)
    from scylla.task t
    where t.behind
        and t.ready
        and t.queue = q.queue
        and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash('')
        and not scylla._is_owned(t.id)
    order by t.created, t.id
    limit 1
))
from unnest($1) q (queue)
left join lane l on l.queue = q.queue
