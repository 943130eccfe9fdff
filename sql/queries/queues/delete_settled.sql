-- Deletes the settled tasks of a queue.
-- Parameters: $1 queue. Result: how many there were.
-- Reads scylla.finished through the indexes by queue; changes scylla.finished. Locks the rows it deletes.
with gone as (
    delete from scylla.finished f where f.queue = $1 returning f.id
)
select count(*) from gone
