-- Which tasks wait for some others.
-- Parameters: $1 the predecessors. Result: each link's predecessor and task.
-- Reads scylla.dependency by primary key; changes and locks nothing.
select d.after, d.task from scylla.dependency d where d.after = any ($1)
