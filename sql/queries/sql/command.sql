-- The SQL command of a live task.
-- Parameters: $1 id. Result: role, database and its oid, command, timeout; no row when the task is not live.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.role::oid, t.database, t.database_oid::oid, t.command, t.timeout
from scylla.task t
where t.id = $1 and t.command is not null
