-- The archive of a queue.
-- Parameters: $1 queue. Result: id, how often it was read, when it was sent, when it was read last,
--   when it was archived, the same, the message, its headers.
-- Reads scylla.finished by its indexes of queues; changes and locks nothing.
select f.id, f.tries, f.created,
    coalesce(f.owned_at, (pg_catalog.jsonb_path_query_array(
        f.history, $path$$[*] ? (@._typ == "TaskAssignment").time$path$
    ) ->> -1)::timestamptz),
    f.updated, f.updated, f.spec, f.meta
from scylla.finished f
where f.queue = $1 and f.action = 'pgmq' and f.status = 'completed'
