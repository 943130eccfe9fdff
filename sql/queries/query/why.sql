-- What keeps one task from running.
-- Parameters: $1 id, $2 now.
-- Result: its status if it is settled; whether it is ready; until when it waits for its time, in
--   microseconds; how many predecessors it waits for, how many it was given, and the oldest of
--   those that are not settled; its queue and group; how many tries have ended; whether it is behind others of its group; no row when there is no
--   such task.
-- Reads scylla.task and scylla.finished; changes and locks nothing.
select null::text, t.ready, (extract(epoch from t.due - $2) * 1000000)::bigint, t.pending,
    (select count(distinct a.id) from unnest(t.after) as a (id)),
    case when t.pending > 0 then (
        select p.id
        from unnest(t.after) as a (id)
        cross join lateral (select o.id, o.created from scylla.task o where o.id = a.id offset 0) p
        order by p.created, p.id
        limit 1
    ) end,
    t.queue, t.group_key, t.tries, t.behind
from scylla.task t
where t.id = $1
union all
select f.status, null, null, null, null, null, f.queue, null, null, null
from scylla.finished f
where f.id = $1
