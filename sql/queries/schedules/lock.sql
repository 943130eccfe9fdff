-- Locks schedules that have a next run, and tells what is needed to fire them.
-- Parameters: $1 ids. Result: id, name, owner, schedule, time zone, misfire, overlap, starts_at,
--   ends_at, next_run, queue, action, priority, timeout, whether the last run is unfinished, for
--   those that mind, whether its runs are SQL commands, their group, and their database with its oid. A
--   schedule that another transaction has locked is passed over.
-- Reads scylla.schedule and scylla.task by primary key; changes nothing. Locks the schedules' rows,
-- waiting for none.
select s.id, s.name, s.owner::oid, s.schedule, s.time_zone, s.misfire, s.overlap, s.starts_at,
    s.ends_at, s.next_run, s.queue, s.action, s.priority, s.timeout,
    s.overlap = 'skip' and exists (select from scylla.task t where t.id = s.last_task),
    s.command is not null,
    case when s.command is not null then
        coalesce(s.group_key, pg_catalog.pg_get_userbyid(s.owner::oid)::text)
    end,
    s.database, s.database_oid::oid
from scylla.schedule s
where s.id = any ($1) and s.active
for update skip locked
