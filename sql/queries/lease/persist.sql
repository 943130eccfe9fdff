-- Writes leases behind, so that they outlive a crash.
-- Parameters, arrays of one length: $1 ids, $2 seals, $3 workers, $4 when the ownership began, $5
--   lengths in microseconds, $6 progress, $7 whether the history tells of the ownership.
-- Reads scylla.task by primary key; changes scylla.lease. Locks only rows of scylla.lease, which
--   none but the scheduler writes.
insert into scylla.lease (id, stamp, seal, worker, owned_at, length, progress, recorded)
select t.id, t.updated, l.seal, l.worker, l.owned_at, l.length, l.progress, l.recorded
from unnest($1, $2, $3, $4, $5, $6, $7)
    as l (id, seal, worker, owned_at, length, progress, recorded)
cross join lateral (select t.* from scylla.task t where t.id = l.id offset 0) t
on conflict (id) do update
set stamp = excluded.stamp, seal = excluded.seal, worker = excluded.worker,
    owned_at = excluded.owned_at, length = excluded.length, progress = excluded.progress,
    recorded = excluded.recorded
