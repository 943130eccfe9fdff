-- Deletes the edges of tasks that end while they wait.
-- Parameters, arrays of one length: $1 predecessors, $2 the tasks that wait for them.
-- Reads scylla.dependency by primary key; changes scylla.dependency. Never waits for a row: an edge
--   that another transaction is deleting, since it settles the predecessor, is left to that one.
delete from scylla.dependency d
where d.ctid = any (array(
    select x.ctid
    from unnest($1, $2) as e (after, task)
    cross join lateral (
        select o.ctid
        from scylla.dependency o
        where o.after = e.after and o.task = e.task
        offset 0
        for update skip locked
    ) x
))
