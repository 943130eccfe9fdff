-- Which of some tasks are live.
-- Parameters: $1 ids. Result: id and queue of those that are.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.id, t.queue from scylla.task t where t.id = any ($1)
