-- The schedule of a job's name and role. One transaction at a time looks for a name, so that no two
-- make it.
-- Parameters: $1 the job's name, $2 the role. Result: the schedule's name and number; no row when
--   no job has this name.
-- Reads scylla.schedule through the index schedule_job; changes nothing. Waits for another
-- transaction that looks for the same name.
with one as materialized (
    select pg_catalog.pg_advisory_xact_lock(
        'scylla.schedule'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int4,
        pg_catalog.hashtext($1)) is null as locked
)
select s.name, s.id
from one
cross join lateral (
    select s.name, s.id
    from scylla.schedule s
    where one.locked is not null and s.job operator(pg_catalog.=) $1
        and s.owner::pg_catalog.oid operator(pg_catalog.=) $2
    offset 0
) s
