-- Deletes the edges behind tasks that have settled or are deleted.
-- Parameters: $1 the predecessors. Result: each edge's predecessor and task, and when the task was
--   submitted, since another task may get its id. An edge without a live task is left out. An edge
--   that another transaction is deleting, since it ends the task, is among them and stays: that
--   transaction has locked the task, and may roll back.
-- Reads scylla.dependency and scylla.task by primary key; changes scylla.dependency. Never waits
--   for a row.
with gone as (
    delete from scylla.dependency d
    where d.ctid = any (array(
        select o.ctid from scylla.dependency o where o.after = any ($1) for update skip locked
    ))
)
select d.after, d.task, t.created
from scylla.dependency d
cross join lateral (select o.created from scylla.task o where o.id = d.task offset 0) t
where d.after = any ($1)
