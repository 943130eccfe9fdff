-- Takes the tasks that wait for others off them, since those have settled or are deleted.
-- Parameters: $1 the predecessors. Result: each link's predecessor and task. A link that somebody is
--   taking off, since he ends the task, is among them and stays: he holds the task, and may roll back.
-- Reads scylla.dependency by primary key; changes scylla.dependency. Never waits for a row.
with gone as (
    delete from scylla.dependency d
    where d.ctid = any (array(
        select o.ctid from scylla.dependency o where o.after = any ($1) for update skip locked
    ))
)
select d.after, d.task from scylla.dependency d where d.after = any ($1)
