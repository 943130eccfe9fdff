-- Notes runs that were missed and are to fire.
-- Parameters, arrays of one length: $1 schedules, $2 the first run, $3 the time before which they
--   were missed.
-- Changes scylla.missed. Locks nothing but what it inserts.
insert into scylla.missed (schedule, next_run, until)
select m.schedule, m.next_run, m.until
from unnest($1, $2, $3) as m (schedule, next_run, until)
on conflict do nothing
