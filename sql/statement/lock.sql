-- Locks live tasks that somebody wants to end, waiting for whoever holds one.
-- Parameters: $1 ids. Result: the ids of those that are live.
-- Reads scylla.task by primary key; changes nothing. Locks the rows in primary-key order.
select t.id from scylla.task t where t.id = any ($1) order by t.id for update
