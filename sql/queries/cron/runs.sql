-- The runs of schedules of SQL commands, live and settled.
-- Parameters: $1 the role whose commands are wanted; null: of all roles.
-- Result: id, schedule, role, database, command, updated, owned_at, errors, history, result, status; of a
--   live one owned_at, result and status are null.
-- Reads scylla.task and scylla.finished through the indexes by queue; changes and locks nothing.
with live as (
    select t.* from scylla.task t
    where t.queue = 'sql' and t.ready and not t.behind and t.group_key is null
    union all
    select t.* from scylla.task t
    where t.queue = 'sql' and t.ready and not t.behind and t.group_key is not null
    union all
    select t.* from scylla.task t where t.queue = 'sql' and t.behind
    union all
    select t.* from scylla.task t where t.queue = 'sql' and not t.ready and not t.behind
)
select l.id, l.schedule, l.role::oid, l.database, l.command, l.updated, null::timestamptz, l.errors,
    l.history, null::jsonb, null::text
from live l
where l.schedule is not null and l.command is not null and ($1 is null or l.role::oid = $1)
union all
select f.id, f.schedule, f.role::oid, f.database, f.command, f.updated, f.owned_at, f.errors,
    f.history, f.result, f.status
from scylla.finished f
where f.queue = 'sql' and f.schedule is not null and f.command is not null
    and ($1 is null or f.role::oid = $1)
