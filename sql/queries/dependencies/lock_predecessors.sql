-- Keeps tasks from settling while others are made to wait for them.
-- Parameters: $1 ids. Result: the id of each that is live, and whether it is marked as having
--   dependents.
-- Reads scylla.task by primary key; changes nothing. Locks the rows in primary-key order, waiting
--   for transactions that settle one; several transactions may lock a row this way.
select t.id, t.followed
from scylla.task t
where t.id = any ($1)
order by t.id
for key share
