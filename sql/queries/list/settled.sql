-- Some settled tasks, those that settled last first, from a position on.
-- Parameters: those of a filter; $11 queue; when the task before settled ($12), was submitted ($13), and
--   its id ($14); $15 how many.
-- Result: id, when it was submitted, when it settled, the queue, and whether the filter takes it.
-- Reads scylla.finished through the index that the marks name; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select f.id, f.created, f.updated, f.queue, true
    and f.action = $2 -- if action
    and coalesce(f.group_key = $3, false) -- if group_key
    and coalesce(f.owner = $5, false) -- if worker
    and f.created < $6 -- if created_before
    and f.created > $7 -- if created_after
    and f.spec @> $8 -- if spec
    and coalesce(f.meta @> $9, false) -- if meta
    and f.status = $10 -- if status
from scylla.finished f
where f.updated <= $12
    and f.queue = $11 -- if one_queue
    and f.status = $10 and f.status <> 'completed' -- if unsuccessful
    and (f.updated < $12 or (f.created, f.id) < ($13, $14))
order by f.updated desc, f.created desc, f.id desc
limit $15
