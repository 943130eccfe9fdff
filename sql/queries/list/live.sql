-- Some live tasks, the newest first, from a position on.
-- Parameters: those of a filter; $11 queue, $12 action, $13 rank or whether the tasks keep their position (1);
--   $14 and $15 time of submission and id of the task before; $16 how many.
-- Result: id, when it was submitted, and whether the filter takes it, but for whether a worker owns it.
-- Reads scylla.task through the index of the part that the marks name; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select t.id, t.created, true
    and t.action = $2 -- if action
    and coalesce(t.group_key = $3, false) -- if group_key
    and t.spec @> $8 -- if spec
    and coalesce(t.meta @> $9, false) -- if meta
    and t.ready -- if is_ready
    and not t.ready -- if is_waiting
from scylla.task t
where t.queue = $11
    and t.ready and not t.behind and t.group_key is null and t.action = $12 and - t.priority = $13 -- if lane
    and t.ready and t.group_key is not null -- if grouped
    and t.behind and t.ready and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash('') -- if behind
    and not t.ready and t.held = ($13 <> 0) -- if waiting
    and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash($3) and t.group_key is not null -- if of_group
    and (t.ready or t.held) and not t.behind -- if first_of_group
    and t.behind -- if behind_in_group
    and (t.created, t.id) < ($14, $15)
    and t.created > $7 -- if created_after
order by t.created desc, t.id desc
limit $16
