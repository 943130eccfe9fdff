-- Takes up what was put off of some tasks.
-- Parameters: $1 ids, of rows that the caller has locked. Result: as of take_up.sql, and with zeros what the
--   clock has just put off anew: it is to be taken up by another call.
-- Reads scylla.task by primary key; reads and changes scylla.countdown. Locks the rows it deletes, waiting
-- for the clock if it has one.
with meant as (
    select c.ctid as place, c.task
    from scylla.countdown c
    where c.task = any ($1)
        and c.created = (select t.created from scylla.task t where t.id = c.task)
), taken as (
    delete from scylla.countdown c
    where c.ctid = any (array(select m.place from meant m))
    returning c.ctid as place, c.settled, c.failed, c.cause
)
select m.task, coalesce(t.settled, 0), coalesce(t.failed, 0), t.cause
from meant m
left join taken t on t.place = m.place
