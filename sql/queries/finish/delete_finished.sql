-- Deletes settled tasks.
-- Parameters: $1 ids. Result: the id of each that was there.
-- Reads scylla.finished by id; changes scylla.finished. Locks the rows it deletes.
delete from scylla.finished f where f.id = any ($1) returning f.id
