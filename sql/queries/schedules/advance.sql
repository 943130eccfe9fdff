-- Notes what became of the runs of schedules.
-- Parameters, arrays of one length: $1 ids, $2 the next run, $3 the last run that fired and $4 its
--   task, both null where none did, $5 how many fired, $6 how many were skipped.
-- Reads scylla.schedule by primary key; changes it, rows that the caller has locked.
update scylla.schedule s
set next_run = r.next_run,
    last_run = greatest(s.last_run, r.last_run),
    last_task = case
        when r.last_run is null or r.last_run < s.last_run then s.last_task
        else r.last_task
    end,
    fired = s.fired + r.fired,
    skipped = s.skipped + r.skipped
from unnest($1, $2, $3, $4, $5, $6) as r (id, next_run, last_run, last_task, fired, skipped)
where s.id = any ($1) and s.id = r.id
