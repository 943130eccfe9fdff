-- The jobs of pg_cron.
-- Parameters: none. Result: jobid, schedule, command, database (null: this one), the role or null,
--   active, jobname, username.
-- Reads cron.job; locks its rows, waiting for other transactions.
select j.jobid, j.schedule, j.command,
    case when j.database operator(pg_catalog.<>) pg_catalog.current_database()::pg_catalog.text
        then j.database end,
    (select r.oid from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) j.username),
    j.active, j.jobname::pg_catalog.text, j.username
from cron.job j
order by j.jobid
for update
