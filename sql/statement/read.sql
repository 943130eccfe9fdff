-- What a worker gets to see of the tasks that it takes.
-- Parameters: $1 ids. Result: a row for each that is live and ready, in any order.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.id, t.action, t.spec, t.priority, t.key, t.tries, t.num_failures
from scylla.task t
where t.id = any ($1) and t.ready
