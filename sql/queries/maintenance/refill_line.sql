-- The next tasks of a group's line, in order, from where its board entry stopped (I4).
-- Parameters: $1 queue, $2 the group's hash, $3 created, $4 id of the first rank that counts, $5 how
--   many.
-- Result: id, priority, created, timeout, the transaction that wrote the row, run_at, where the row is, action, and
--   whether it is ready; one that is not keeps its place.
-- Reads scylla.task through the index task_line, no row before the cursor; changes and locks nothing.
select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid, t.action, t.ready
from scylla.task t
where t.queue = $1
    and scylla._group_hash(t.group_key) = $2
    and t.group_key is not null
    and (t.ready or t.held)
    and (t.created, t.id) >= ($3, $4)
order by t.created, t.id
limit $5
