-- Some settled tasks in the order of their ids, the greatest first, from one on.
-- Parameters: those of a filter; $11 the id before, $12 how many.
-- Result: as of list/settled.
-- Reads scylla.finished through the indexes by id; changes and locks nothing.
-- The caller leaves out the lines whose marks it does not need.
select f.id, f.created, f.updated, f.queue, true
    and f.queue = $1 -- if queue
    and f.action = $2 -- if action
    and coalesce(f.group_key = $3, false) -- if group_key
    and coalesce(f.owner = $5, false) -- if worker
    and f.created < $6 -- if created_before
    and f.created > $7 -- if created_after
    and f.spec @> $8 -- if spec
    and coalesce(f.meta @> $9, false) -- if meta
from scylla.finished f
where f.id < $11
order by f.id desc
limit $12
