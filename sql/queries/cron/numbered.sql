-- The schedule of a job's number.
-- Parameters: $1 the number. Result: the schedule's name, its owner, the job's name; no row when
--   there is no such job.
-- Reads scylla.schedule by primary key; changes and locks nothing.
select s.name, s.owner::pg_catalog.oid, s.job
from scylla.schedule s
where s.id operator(pg_catalog.=) $1 and s.command is not null
