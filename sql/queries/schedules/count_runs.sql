-- Notes that runs of schedules have settled.
-- Parameters, arrays of one length: $1 the schedules, $2 how many runs completed, $3 how many were
--   aborted.
-- Changes scylla.run_count. Locks nothing but what it inserts.
insert into scylla.run_count (schedule, completed, aborted)
select c.schedule, c.completed, c.aborted
from unnest($1, $2, $3) as c (schedule, completed, aborted)
