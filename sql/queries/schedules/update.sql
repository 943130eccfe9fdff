-- Changes a schedule.
-- Parameters: as of insert.sql up to $15; $16 id, $17 the owner, null: as it is, $18 whether it is
--   active, $19 the database and $20 the command of its runs, $21 the database's oid,
--   $22 its name in the schema cron.
-- Reads scylla.schedule by primary key; changes it, a row that the caller has locked.
update scylla.schedule s
set schedule = $1, queue = $2, spec = $3, action = $4, priority = $5, time_zone = $6, misfire = $7,
    overlap = $8, max_tries = $9, retry_interval = $10, retry_jitter = $11, timeout = $12,
    starts_at = $13, ends_at = $14, next_run = $15,
    owner = coalesce($17::scylla.role, s.owner), active = $18, database = $19, command = $20,
    database_oid = $21, job = $22
where s.id = $16
