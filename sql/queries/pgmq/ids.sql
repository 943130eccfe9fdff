-- The messages of a queue.
-- Parameters: $1 queue. Result: the ids of its live tasks, in their order.
-- Reads scylla.task by its indexes of queues; changes and locks nothing.
select t.id from scylla._live($1) t where t.action = 'pgmq' order by t.id
