-- Takes one setting of a queue back to its default.
-- Parameters: $1 queue, $2 the setting's name.
-- Result: as of read.sql; no row when the queue has no settings.
-- Reads and changes scylla.queue by primary key. Locks the queue's row, waiting for a transaction
-- that has it locked.
update scylla.queue q
set version = q.version + 1,
    timeout = case when $2 <> 'timeout' then q.timeout end,
    retention = case when $2 <> 'retention' then q.retention end,
    max_running = case when $2 <> 'max_running' then q.max_running end,
    max_per_second = case when $2 <> 'max_per_second' then q.max_per_second end,
    aging = case when $2 <> 'aging' then q.aging end,
    keep_finished = case when $2 <> 'keep_finished' then q.keep_finished end,
    critical = case when $2 <> 'critical' then q.critical end,
    max_tries = case when $2 <> 'max_tries' then q.max_tries end,
    retry_interval = case when $2 <> 'retry_interval' then q.retry_interval end,
    retry_jitter = case when $2 <> 'retry_jitter' then q.retry_jitter end,
    max_ready = case when $2 <> 'max_ready' then q.max_ready end,
    max_running_per_group =
        case when $2 <> 'max_running_per_group' then q.max_running_per_group end
where q.queue = $1
returning q.queue, q.version, q.paused, q.critical, q.timeout, q.keep_finished, q.max_running,
    q.max_per_second, q.aging, q.max_ready, q.max_running_per_group
