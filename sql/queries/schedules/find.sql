-- Locks a schedule, and tells all that its owner chose, and where its runs are.
-- Parameters: $1 its name; or $1 its id; or $1 the name and $2 the role of a job.
-- Result: id, name, owner, active, next_run, last_run, job, then schedule, queue, spec, action,
--   priority, time_zone, misfire, overlap, max_tries, retry_interval, retry_jitter, timeout,
--   starts_at, ends_at, meta, database, command, the database's oid; no row when there is no such schedule.
-- Reads scylla.schedule through the index schedule_name or schedule_job, or by primary key; changes
-- nothing. Locks the row, waiting for another transaction that has it, and tells the locked row.
select s.id, s.name, s.owner::pg_catalog.oid, s.active, s.next_run, s.last_run, s.job, s.schedule,
    s.queue, s.spec, s.action, s.priority, s.time_zone, s.misfire, s.overlap, s.max_tries,
    s.retry_interval, s.retry_jitter, s.timeout, s.starts_at, s.ends_at, s.meta, s.database, s.command,
    s.database_oid::pg_catalog.oid
from scylla.schedule s
where {which}
for update
