-- Locks live tasks that the caller wants to end, waiting for other transactions' locks.
-- Parameters: $1 ids. Result: of those that are live the id, lane, rank, lease length,
--   group and readiness, how many predecessors it waits for, and all of them if it does for some;
--   whether it keeps its position while it waits, and whether it is behind others of its group.
-- Reads scylla.task by primary key; changes nothing. Locks the rows in primary-key order.
select t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key, t.ready,
    t.pending, case when t.pending > 0 then t.after end, t.held, t.behind
from scylla.task t
where t.id = any ($1)
order by t.id
for update
