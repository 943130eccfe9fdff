-- Takes a batch of deferred countdowns.
-- Parameters: $1 how many. Result: the task, null if it is not live any more; how many predecessors
--   have settled, how many of these failed, one of those, and when the task was submitted.
-- Reads scylla.task by primary key; reads and changes scylla.countdown. Never waits for a row.
with taken as (
    delete from scylla.countdown c
    where c.ctid = any (array(
        select o.ctid from scylla.countdown o limit $1 for update skip locked
    ))
    returning c.task, c.created, c.settled, c.failed, c.cause
)
select t.id, c.settled, c.failed, c.cause, c.created
from taken c
left join lateral (
    select o.id from scylla.task o where o.id = c.task and o.created = c.created offset 0
) t on true
