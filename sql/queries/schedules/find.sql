-- Locks a schedule, and tells all that its owner chose, and where its runs are.
-- Parameters: $1 its name.
-- Result: id, owner, active, next_run, last_run, then schedule, queue, spec, action, priority,
--   time_zone, misfire, overlap, max_tries, retry_interval, retry_jitter, timeout, starts_at,
--   ends_at, meta, database, command; no row when no schedule has it.
-- Reads scylla.schedule through the index schedule_name; changes nothing. Locks the row, waiting for
-- another transaction that has it.
select s.id, s.owner::pg_catalog.oid, s.active, s.next_run, s.last_run, s.schedule, s.queue,
    s.spec, s.action, s.priority, s.time_zone, s.misfire, s.overlap, s.max_tries, s.retry_interval, s.retry_jitter, s.timeout,
    s.starts_at, s.ends_at, s.meta, s.database, s.command
from scylla.schedule s
where s.name = $1
for update
