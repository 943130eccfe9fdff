-- Whether a task is live, or how it has settled; one snapshot sees it in one table.
-- Parameters: $1 id. Result: its status, null if it is live; no row when there is no such task.
-- Reads scylla.finished and scylla.task by id; changes and locks nothing.
select f.status from scylla.finished f where f.id = $1
union all
select null from scylla.task t where t.id = $1
