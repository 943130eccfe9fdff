-- Whether a role has a job of a name.
-- Parameters: $1 the job's name, $2 the role's. Result: a row when it has.
-- Reads scylla.schedule through the index schedule_job, and pg_roles; changes and locks nothing.
select true
from scylla.schedule s
join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) s.owner::pg_catalog.oid
where s.job operator(pg_catalog.=) $1 and r.rolname operator(pg_catalog.=) $2::pg_catalog.name
