-- Deletes the task of a run that has ended, if a role sees it in cron.job_run_details.
-- Parameters: $1 the job's number and $2 the run's, as texts, $3 the role. Result: a row when it was there.
-- Reads scylla.finished by id, of which a run's number has the first bits; changes scylla.finished. Locks
-- the row.
delete from scylla.finished f
using (
    select pg_catalog.substr(d.digits, 1, 12) operator(pg_catalog.||) '7'
        operator(pg_catalog.||) pg_catalog.substr(d.digits, 13, 3) as prefix
    from (select pg_catalog.lpad(pg_catalog.to_hex($2::pg_catalog.int8), 15, '0') as digits) d
) run
where f.id >= (run.prefix operator(pg_catalog.||) pg_catalog.repeat('0', 16))::pg_catalog.uuid
    and f.id <= (run.prefix operator(pg_catalog.||) pg_catalog.repeat('f', 16))::pg_catalog.uuid
    and f.schedule operator(pg_catalog.=) $1::pg_catalog.int8
    and f.command is not null
    and exists (
        select from pg_catalog.pg_roles r
        where r.oid operator(pg_catalog.=) $3
            and (r.oid operator(pg_catalog.=) f.role::pg_catalog.oid or r.rolsuper or r.rolbypassrls))
returning f.id
