-- The queues of some tasks.
-- Parameters: $1 ids. Result: id and queue of each task that exists.
-- Reads scylla.task and scylla.finished by id; changes and locks nothing.
select t.id, t.queue from scylla.task t where t.id = any ($1)
union all
select f.id, f.queue from scylla.finished f where f.id = any ($1)
