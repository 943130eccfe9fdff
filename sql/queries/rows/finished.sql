-- Which of some tasks are settled.
-- Parameters: $1 ids. Result: id and status of those that are.
-- Reads scylla.finished; changes and locks nothing.
select f.id, f.status from scylla.finished f where f.id = any ($1)
