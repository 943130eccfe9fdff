-- The tasks with a key, live and settled, in no order.
-- Parameters: those of a filter; $11 how many at most.
-- Result: id, when it was submitted, when it settled (null: it is live), the queue, and whether the filter
--   takes it, but for whether a worker owns it.
-- Reads scylla.task through the index task_key, and scylla.finished by key; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select t.id, t.created, null::timestamptz, t.queue, true
    and t.queue = $1 -- if queue
    and t.action = $2 -- if action
    and coalesce(t.group_key = $3, false) -- if group_key
    and t.created < $6 -- if created_before
    and t.created > $7 -- if created_after
    and t.spec @> $8 -- if spec
    and coalesce(t.meta @> $9, false) -- if meta
    and t.ready -- if is_ready
    and not t.ready -- if is_waiting
from scylla.task t
where t.key = $4
union all
(
    select f.id, f.created, f.updated, f.queue, true
        and f.queue = $1 -- if queue
        and f.action = $2 -- if action
        and coalesce(f.group_key = $3, false) -- if group_key
        and coalesce(f.owner = $5, false) -- if worker
        and f.created < $6 -- if created_before
        and f.created > $7 -- if created_after
        and f.spec @> $8 -- if spec
        and coalesce(f.meta @> $9, false) -- if meta
        and f.status = $10 -- if status
    from scylla.finished f
    where f.key = $4
    limit $11
)
