-- Locks tasks of which a predecessor failed, passing over those that are locked already.
-- Parameters: $1 ids. Result: of each that is live and not locked the id, whether it runs despite
--   the failure, its predecessors, and when it was submitted.
-- Reads scylla.task by primary key; changes nothing. Never waits for a row.
select t.id, t.run_on_failure, t.after, t.created
from scylla.task t
where t.id = any ($1)
order by t.id
for update skip locked
