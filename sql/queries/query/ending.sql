-- Whether a task has ended, and how; one snapshot sees it in one table.
-- Parameters: $1 id. Result: status (null: it is live), result, whether that may be waited for, and the
--   queue; no row when there is no such task.
-- Reads scylla.finished and scylla.task by id; changes and locks nothing.
select f.status, f.result, f.post_result, f.queue from scylla.finished f where f.id = $1
union all
select null, null, t.post_result, t.queue from scylla.task t where t.id = $1
