-- Whether a queue exists: it has settings, totals or a live task, or the server serves it.
-- Parameters: $1 queue. Result: a boolean.
-- Reads scylla.queue and scylla.queue_total by primary key, and scylla.task through the indexes task_lane, task_behind and
-- task_group; all live tasks when neither has the queue. Changes and locks nothing.
select $1 = 'sql'
    or exists (select from scylla.queue q where q.queue = $1)
    or exists (select from scylla.queue_total q where q.queue = $1)
    or exists (select from scylla.task t where t.queue = $1 and t.ready and not t.behind and t.group_key is null)
    or exists (select from scylla.task t where t.queue = $1 and t.behind)
    or exists (select from scylla.task t where t.queue = $1 and t.group_key is not null)
    or exists (select from scylla.task t where t.queue = $1 and not t.ready)
