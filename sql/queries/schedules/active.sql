-- All schedules that have a run to come, but for those whose next run is after a time.
-- Parameters: $1 that time.
-- Result: name, schedule, time zone, starts_at, ends_at, next_run, queue, action.
-- Reads scylla.schedule through the index schedule_next; changes and locks nothing.
select s.name, s.schedule, s.time_zone, s.starts_at, s.ends_at, s.next_run, s.queue, s.action
from scylla.schedule s
where s.next_run is not null and s.next_run <= $1
order by s.next_run, s.id
