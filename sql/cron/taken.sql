-- Removes jobs from pg_cron.
-- Parameters: $1 their numbers. Changes cron.job by primary key.
delete from cron.job j where j.jobid operator(pg_catalog.=) any ($1)
