-- The messages of a queue, with their leases.
-- Parameters: $1 queue. Result: id, how often it was read, when it was sent, when it was read last,
--   null, when it is visible, the message, its headers.
-- Reads scylla.task by its indexes of queues, and the board; changes and locks nothing.
with live as (
    select t.*
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is null
    union all
    select t.*
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is not null
    union all
    select t.*
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.behind
    union all
    select t.*
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and not t.ready and not t.behind
)
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
from live t
left join scylla._leases() l on l.id = t.id
order by t.id
