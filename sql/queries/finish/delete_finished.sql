-- Deletes settled tasks.
-- Parameters: $1 ids. Result: the id and the queue of each that was there.
-- Reads scylla.finished by id; changes scylla.finished. Locks the rows in the order of their ids, as
-- resubmissions do, waiting for other transactions' locks.
with locked as materialized (
    select f.id
    from scylla.finished f
    where f.id = any ($1)
    order by f.id
    for update
)
delete from scylla.finished f where f.id = any (array(select l.id from locked l))
returning f.id, f.queue
