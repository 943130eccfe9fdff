-- Changes a schedule.
-- Parameters: as of insert.sql up to $16; $17 id, $18 the owner, null: as it is, $19 whether it is
--   active, $20 the database and $21 the command of its runs, $22 the database's oid,
--   $23 its name in the schema cron.
-- Reads scylla.schedule by primary key; changes it, a row that the caller has locked.
update scylla.schedule s
set schedule = $1, queue = $2, spec = $3, action = $4, priority = $5, time_zone = $6, misfire = $7,
    overlap = $8, max_tries = $9, retry_interval = $10, retry_jitter = $11, timeout = $12,
    starts_at = $13, ends_at = $14, meta = $15, next_run = $16,
    owner = coalesce($18::scylla.role, s.owner), active = $19, database = $20, command = $21,
    database_oid = $22, job = $23
where s.id = $17
