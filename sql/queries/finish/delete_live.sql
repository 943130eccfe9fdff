-- Deletes live tasks without a trace.
-- Parameters: $1 ids, of rows that the caller has locked.
-- Reads scylla.task by primary key; changes scylla.task.
delete from scylla.task t where t.id = any ($1)
