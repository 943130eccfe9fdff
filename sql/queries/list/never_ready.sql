-- The tasks of a group that were never ready, in no order.
-- Parameters: those of a filter; $11 how many at most.
-- Result: as of list/live.
-- Reads scylla.task through the index task_group; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select t.id, t.created, true
    and t.action = $2 -- if action
    and coalesce(t.group_key = $3, false) -- if group_key
    and t.spec @> $8 -- if spec
    and coalesce(t.meta @> $9, false) -- if meta
    and t.ready -- if is_ready
    and not t.ready -- if is_waiting
    and t.created < $6 -- if created_before
    and t.created > $7 -- if created_after
from scylla.task t
where t.queue = $1
    and scylla._group_hash(t.group_key) = scylla._group_hash($3)
    and t.group_key is not null
    and not (t.ready or t.held)
limit $11
