-- Takes up what was put off of some tasks.
-- Parameters: $1 ids. Result: as of take_up.sql, and with zeros what the clock has just put off anew: it
--   is to be taken up by another call.
-- Reads and changes scylla.countdown. Locks the rows it deletes, waiting for the clock if it has one.
with taken as (
    delete from scylla.countdown c
    where c.task = any ($1)
    returning c.ctid as place, c.settled, c.failed, c.cause
)
select c.task, coalesce(t.settled, 0), coalesce(t.failed, 0), t.cause
from scylla.countdown c
left join taken t on t.place = c.ctid
where c.task = any ($1)
