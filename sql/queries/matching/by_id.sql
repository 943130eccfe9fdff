-- Which of some live tasks a filter takes, but for their status and worker.
-- Parameters: those of a filter; $11 ids.
-- Result: id, when it was submitted, and whether the filter takes it.
-- Reads scylla.task by primary key; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select t.id, t.created, true
    and t.queue = $1 -- if queue
    and t.action = $2 -- if action
    and coalesce(t.group_key = $3, false) -- if group_key
    and coalesce(t.key = $4, false) -- if key
    and t.created < $6 -- if created_before
    and t.created > $7 -- if created_after
    and t.spec @> $8 -- if spec
    and coalesce(t.meta @> $9, false) -- if meta
    and t.ready -- if is_locked_ready
    and not t.ready -- if is_locked_waiting
from scylla.task t
where t.id = any ($11)
