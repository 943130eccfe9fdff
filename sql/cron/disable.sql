-- Removes what enable.sql makes. Fails when the schema has anything else, or is pg_cron's.
drop view cron.job, cron.job_run_details;
drop function cron.schedule(text, text), cron.schedule(text, text, text), cron.schedule_in_database,
    cron.unschedule(bigint), cron.alter_job;
-- One of the two, by the version of the extension that made the schema.
drop function if exists cron.unschedule(name), cron.unschedule(text);
drop schema cron
