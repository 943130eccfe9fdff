-- Deletes settled tasks, except those whose rows are locked.
-- Parameters: $1 ids. Result: the id and the queue of each that went.
-- Reads scylla.finished by id; changes scylla.finished. Never waits for a row.
with locked as materialized (
    select f.id
    from scylla.finished f
    where f.id = any ($1)
    order by f.id
    for update skip locked
)
delete from scylla.finished f where f.id = any (array(select l.id from locked l))
returning f.id, f.queue
