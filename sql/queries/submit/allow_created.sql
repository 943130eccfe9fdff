-- Allows tasks to be submitted up to a time that no later one was allowed before.
-- Parameters: $1 microseconds since 2000-01-01 UTC. Result: the time that was allowed before, and the
--   one that is now. Changes the sequence scylla.created_until, which the caller has locked.
select s.last_value,
    pg_catalog.setval('scylla.created_until', greatest(s.last_value, $1))
from scylla.created_until s
