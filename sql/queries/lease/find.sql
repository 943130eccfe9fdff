-- The position of one live task in its lane.
-- Parameters: $1 id. Result: its lane, rank, lease length, group and readiness, and
--   whether it is behind others of its group, if it is live.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.queue, t.action, t.priority, t.created, t.timeout, t.group_key, t.ready,
    t.behind
from scylla.task t
where t.id = $1
