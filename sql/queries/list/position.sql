-- Where a task is in a list.
-- Parameters: $1 id.
-- Result: when it was submitted, and when it settled, null if it is live; no row when there is no such
--   task.
-- Reads scylla.task and scylla.finished by id; changes and locks nothing.
select t.created, null::timestamptz from scylla.task t where t.id = $1
union all
select f.created, f.updated from scylla.finished f where f.id = $1
