-- Locks live tasks for the scheduler, passing over those that are locked already (I10).
-- Parameters: $1 ids. Result: the ids of those that are live and were not locked.
-- Reads scylla.task by primary key; changes nothing. Locks the rows in primary-key order.
select t.id
from scylla.task t
where t.id = any ($1)
order by t.id
for update skip locked
