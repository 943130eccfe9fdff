-- Which of some tasks are live SQL commands.
-- Parameters: $1 ids. Result: the id of each.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.id from scylla.task t where t.id = any ($1) and t.command is not null
