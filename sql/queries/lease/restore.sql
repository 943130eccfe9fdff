-- The leases that stood when the server went down.
-- No parameters. Result: the lease, and its task's lane, rank, lease length and group.
-- Reads scylla.lease and scylla.task; changes and locks nothing.
select l.id, l.seal, l.worker, l.owned_at, l.length, l.progress, l.recorded,
    t.queue, t.action, t.priority, t.created, t.timeout, t.group_key
from scylla.lease l
cross join lateral (
    select t.* from scylla.task t where t.id = l.id and t.updated = l.stamp and t.ready offset 0
) t
