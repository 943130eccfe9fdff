-- Takes the tasks that wait for others off them, since those have settled or are deleted.
-- Parameters: $1 the predecessors. Result: of each link that went the predecessor and the task.
-- Reads scylla.dependency by primary key; changes scylla.dependency. Locks the rows it deletes.
delete from scylla.dependency d where d.after = any ($1) returning d.after, d.task
