-- Those of some messages of a queue that are live, with their leases.
-- Parameters: $1 queue, $2 ids. Result: as that of messages.sql.
-- Reads scylla.task by primary key, and the board; changes and locks nothing.
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
from scylla.task t
left join lateral scylla._leases(t.id) l on true
where t.id = any ($2) and t.queue = $1
order by t.id
