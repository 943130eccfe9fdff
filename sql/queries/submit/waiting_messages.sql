-- Which messages of a queue wait.
-- Parameters: $1 queue, $2 their ids. Result: the ids of those that do.
-- Reads scylla.task through the index task_message; changes and locks nothing.
select m.message
from unnest($2) as m (message)
where (select true from scylla.task t where t.queue = $1 and t.message = m.message)
