-- Locks some of the runs that were missed.
-- Parameters: $1 the schedule, $2 the end of the last ones, $3 how many of such.
-- Result: schedule, until, and the first run that has not fired; those that another transaction has
--   locked are passed over.
-- Reads scylla.missed by primary key; changes nothing. Locks its rows, waiting for none.
select m.schedule, m.until, m.next_run
from scylla.missed m
where (m.schedule, m.until) > ($1, $2)
order by m.schedule, m.until
limit $3
for update skip locked
