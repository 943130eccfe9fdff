-- The settled tasks that a filter takes.
-- Parameters: those of a filter.
-- Result: id, queue; in no order.
-- Reads scylla.finished through the indexes by key, by queue, or by status and queue; all of it where the
--   filter has none of these. Changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select f.id, f.queue
from scylla.finished f
where true
    and f.queue = $1 -- if queue
    and f.action = $2 -- if action
    and f.group_key = $3 -- if group_key
    and f.key = $4 -- if key
    and f.owner = $5 -- if worker
    and f.created < $6 -- if created_before
    and f.created > $7 -- if created_after
    and f.spec @> $8 -- if spec
    and f.meta @> $9 -- if meta
    and f.status = $10 -- if status
    and f.status <> 'completed' -- if unsuccessful
    and f.status in ('aborted', 'cancelled') and f.status <> 'completed' and f.resubmitted_as is null -- if to_resubmit
