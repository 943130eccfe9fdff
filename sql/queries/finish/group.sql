-- The unfinished tasks of a group.
-- Parameters: $1 queue, $2 the group's key. Result: their ids.
-- Reads scylla.task through the index task_group; changes and locks nothing.
select t.id from scylla.task t where t.queue = $1 and t.group_key = $2
