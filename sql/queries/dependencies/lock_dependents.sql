-- Locks tasks of which a predecessor failed, passing over those that somebody holds.
-- Parameters: $1 ids. Result: of each that is live and free the id, whether it runs all the same, and
--   its predecessors.
-- Reads scylla.task by primary key; changes nothing. Never waits for a row.
select t.id, t.run_on_failure, t.after
from scylla.task t
where t.id = any ($1)
order by t.id
for update skip locked
