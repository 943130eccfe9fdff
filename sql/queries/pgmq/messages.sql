-- The messages of a queue, with their leases.
-- Parameters: $1 queue. Result: id, how often it was read, when it was sent, when it was read last,
--   null, when it is visible, the message, its headers.
-- Reads scylla.task by its indexes of queues, and the board; changes and locks nothing.
select t.id,
    t.tries + case when not l.recorded then 1 else 0 end as read_ct,
    t.created,
    coalesce(l.owned_at, (pg_catalog.jsonb_path_query_array(
        t.history, $path$$[*] ? (@._typ == "TaskAssignment").time$path$
    ) ->> -1)::timestamptz) as last_read_at,
    null::timestamptz as archived_at,
    case when l.id is null then coalesce(t.due, t.run_at, t.created)
        else coalesce(l.deadline, 'infinity') end as vt,
    t.spec, t.meta
from scylla._live($1) t
left join scylla._leases() l on l.id = t.id
where t.action = 'pgmq'
order by t.id
