-- The jobs of pg_cron.
-- Parameters: none. Result: jobid, schedule, command, database (null: this one), the role or null,
--   active, jobname, why it would not be the same here (null: it would), the time zone of its schedule
--   (null: UTC).
-- Reads cron.job; locks its rows, waiting for other transactions.
select j.jobid, j.schedule, j.command,
    case when j.database operator(pg_catalog.<>) pg_catalog.current_database()::pg_catalog.text
        then j.database end,
    (select r.oid from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) j.username),
    j.active, j.jobname::pg_catalog.text,
    case
        when pg_catalog.cardinality(pg_catalog.regexp_split_to_array(pg_catalog.btrim(j.schedule), '\s+'))
            operator(pg_catalog.>) 5
            then 'the schedule has more than five fields, of which pg_cron ignores the others'
        -- Processes of the server connect to no node.
        when pg_catalog.current_setting('cron.use_background_workers', true)::pg_catalog.bool then null
        when j.nodename operator(pg_catalog.<>) all ('{localhost,"",127.0.0.1,::1}')
                and j.nodename operator(pg_catalog.!~~) '/%'
            or j.nodeport operator(pg_catalog.<>) pg_catalog.current_setting('port')::pg_catalog.int4
            then pg_catalog.format('the job runs on the server at %s:%s', j.nodename, j.nodeport)
    end,
    case when pg_catalog.current_setting('cron.timezone', true) operator(pg_catalog.<>) all ('{"",GMT}')
        then pg_catalog.current_setting('cron.timezone', true) end
from cron.job j
order by j.jobid
for update
