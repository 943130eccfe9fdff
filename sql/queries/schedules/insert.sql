-- Inserts a schedule.
-- Parameters: $1 schedule, $2 queue, $3 spec, $4 action, $5 priority, $6 time_zone, $7 misfire,
--   $8 overlap, $9 max_tries, $10 retry_interval, $11 retry_jitter, $12 timeout, $13 starts_at,
--   $14 ends_at, $15 meta, $16 the next run, $17 the name, $18 the owner, $19 the database and $20
--   the command of its runs, $21 the database's oid, $22 its id, $23 its name in the schema cron,
--   $24 whether it is active.
-- Result: its id; no row when there is one of that id or name, or a job of that name and owner.
-- Changes scylla.schedule. Waits for another transaction that inserts the same.
insert into scylla.schedule
    (schedule, queue, spec, action, priority, time_zone, misfire, overlap, max_tries, retry_interval,
    retry_jitter, timeout, starts_at, ends_at, meta, next_run, name, owner, database, command,
    database_oid, id, job, active)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22, $23, $24)
on conflict do nothing
returning id
