-- Deletes the settled tasks of a queue.
-- Parameters: $1 queue. Result: how many there were.
-- Reads scylla.finished through the indexes by queue, then by id; changes scylla.finished. Locks the rows
-- in the order of their ids, as resubmissions do, waiting for other transactions' locks; for
-- a caller that must not wait, it passes over these rows.
with settled as materialized (
    select f.id from scylla.finished f where f.queue = $1
), locked as materialized (
    select f.id
    from scylla.finished f
    where f.id = any (array(select s.id from settled s)) and f.queue = $1
    order by f.id
    for update
), gone as (
    delete from scylla.finished f where f.id = any (array(select l.id from locked l)) returning f.id
)
select count(*) from gone
