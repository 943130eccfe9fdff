-- Locks those of some settled tasks that a filter takes and that were not resubmitted.
-- Parameters: those of a filter; $11 ids.
-- Result: id, queue, and the role with whose rights the server runs the task's command, null if it has none.
-- Reads scylla.finished by id; changes nothing. Locks the tasks' rows in the order of their ids, waiting for
-- other transactions' locks.
-- The caller leaves out the lines whose marks it does not need.
select f.id, f.queue, case when f.command is not null then f.role::oid end
from scylla.finished f
where f.id = any ($11) and f.status in ('aborted', 'cancelled') and f.resubmitted_as is null
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
order by f.id
for no key update
