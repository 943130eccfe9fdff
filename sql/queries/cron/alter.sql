-- Changes a job, as the role that asks.
-- Parameters, as texts: $1 its number, $2 schedule, $3 command, $4 database, $5 the role, $6 whether it is
--   active; null leaves a value as it is.
-- Locks the row in scylla.schedule.
select scylla._cron_alter($1::pg_catalog.int8, $2, $3, $4, $5, $6::pg_catalog.bool)
