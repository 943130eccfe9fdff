-- Counts the runs of schedules that have settled.
-- Parameters: $1 the schedules' ids.
-- Reads all of scylla.run_count, and scylla.schedule by primary key; changes both, of the schedules rows
-- that the caller has locked.
with gone as (
    delete from scylla.run_count c where c.schedule = any ($1)
    returning c.schedule, c.completed, c.aborted
), total as (
    select g.schedule, pg_catalog.sum(g.completed) as completed, pg_catalog.sum(g.aborted) as aborted
    from gone g
    group by g.schedule
)
update scylla.schedule s
set completed = s.completed + t.completed, aborted = s.aborted + t.aborted
from total t
where s.id = any ($1) and s.id = t.schedule
