-- Locks the task of a waiting message, waiting for another transaction's lock.
-- Parameters: $1 queue, $2 the message's id. Result: the task's id and the role that sent it; no row
--   when none waits.
-- Reads scylla.task through the index task_message; changes nothing.
select t.id, t.sender from scylla.task t where t.queue = $1 and t.message = $2 for update
