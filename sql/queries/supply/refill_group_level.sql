-- As refill_level.sql, of a lane of a group.
-- Parameters: $1 queue, $2 action, $3 minus priority, $4 created, $5 id of the first rank that
--   counts, $6 how many, $7 the group's hash.
-- Result: as of refill.sql.
-- Reads scylla.task through the index task_group_lane, no row before the cursor; changes and locks
--   nothing.
select t.id, t.priority, t.created, t.timeout, t.xmin, t.run_at, t.ctid
from scylla.task t
where t.queue = $1
    and t.action = $2
    and t.ready
    and not t.behind
    and scylla._group_hash(t.group_key) = $7
    and t.group_key is not null
    and -t.priority = $3
    and (t.created, t.id) >= ($4, $5)
order by t.created, t.id
limit $6
