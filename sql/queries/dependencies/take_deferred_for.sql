-- Takes the deferred countdowns of some tasks.
-- Parameters: $1 ids, of rows that the caller has locked. Result: as of take_deferred.sql. A row of
--   zeros is one that the scheduler has just deferred again: another call must take it.
-- Reads scylla.task by primary key; reads and changes scylla.countdown. Locks the rows that it
--   deletes, waiting for the scheduler if that has locked one.
with meant as (
    select c.ctid as tid, c.task, c.created
    from scylla.countdown c
    where c.task = any ($1)
        and c.created = (select t.created from scylla.task t where t.id = c.task)
), taken as (
    delete from scylla.countdown c
    where c.ctid = any (array(select m.tid from meant m))
    returning c.ctid as tid, c.settled, c.failed, c.cause
)
select m.task, coalesce(t.settled, 0), coalesce(t.failed, 0), t.cause, m.created
from meant m
left join taken t on t.tid = m.tid
