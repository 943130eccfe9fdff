-- Removes a job, as the role that asks.
-- Parameters: $1 its number, as text.
select scylla._cron_unschedule($1::pg_catalog.int8, null)
