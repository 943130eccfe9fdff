-- As read.sql, of one task: cheaper without the array.
-- Parameters: $1 id. Result: a row if it is live and ready.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.id, t.action, t.spec, t.priority, t.key, t.tries, t.num_failures
from scylla.task t
where t.id = $1 and t.ready
