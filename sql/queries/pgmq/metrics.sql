-- The numbers of a queue.
-- Parameters: $1 queue. Result: how many messages it has, the ages of the newest and of the oldest in seconds,
--   how many were sent, now, how many are visible.
-- Reads scylla.task by its indexes of queues, the board, and what is counted; changes and locks nothing.
select pg_catalog.count(*),
    extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.max(t.created))::integer,
    extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.min(t.created))::integer,
    (select coalesce(pg_catalog.max(s.submitted), 0) from scylla.stats s where s.queue = $1),
    pg_catalog.now(),
    pg_catalog.count(*) filter (where t.ready and l.id is null)
from scylla._live($1) t
left join scylla._leases() l on l.id = t.id
where t.action = 'pgmq'
