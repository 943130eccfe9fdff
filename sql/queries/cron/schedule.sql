-- Schedules a job, as the role that asks.
-- Parameters, as texts: $1 the job's name, empty: none; $2 schedule, $3 command, $4 database, $5 the role,
--   null: the one that asks, $6 whether it is active. Result: its number.
select scylla._cron_schedule($1, $2, $3, $4, $5, $6::pg_catalog.bool)
