-- Removes what enable.sql makes. Fails when the schema has anything else, or is pg_cron's.
drop view cron.job, cron.job_run_details;
drop function cron.schedule(text, text), cron.schedule(text, text, text), cron.schedule_in_database,
    cron.unschedule(bigint), cron.unschedule(name), cron.alter_job;
drop schema cron
