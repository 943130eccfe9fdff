-- The leases that stood when the server went down.
-- No parameters. Result: the lease, and its task's lane, rank and lease length.
-- Reads scylla.lease and scylla.task; changes and locks nothing.
select l.id, l.seal, l.worker, l.owned_at, l.length, l.progress, l.recorded,
    t.queue, t.action, t.priority, t.created, t.timeout
from scylla.lease l
join scylla.task t on t.id = l.id and t.updated = l.stamp
where t.ready
