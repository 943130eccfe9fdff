-- Changes settings of a queue.
-- Parameters: $1 queue; the settings, null for what stays as it is: $2 timeout, $3 retention,
--   $4 max_running, $5 max_per_second, $6 aging, $7 keep_finished, $8 critical, $9 max_tries,
--   $10 retry_interval, $11 retry_jitter, $12 max_ready, $13 max_running_per_group.
-- Result: as of read.sql.
-- Reads and changes scylla.queue by primary key. Locks the queue's row, waiting for a transaction
-- that has it locked.
insert into scylla.queue as q
    (queue, version, timeout, retention, max_running, max_per_second, aging, keep_finished, critical,
    max_tries, retry_interval, retry_jitter, max_ready, max_running_per_group)
values ($1, 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict (queue) do update
set version = q.version + 1,
    timeout = coalesce(excluded.timeout, q.timeout),
    retention = coalesce(excluded.retention, q.retention),
    max_running = coalesce(excluded.max_running, q.max_running),
    max_per_second = coalesce(excluded.max_per_second, q.max_per_second),
    aging = coalesce(excluded.aging, q.aging),
    keep_finished = coalesce(excluded.keep_finished, q.keep_finished),
    critical = coalesce(excluded.critical, q.critical),
    max_tries = coalesce(excluded.max_tries, q.max_tries),
    retry_interval = coalesce(excluded.retry_interval, q.retry_interval),
    retry_jitter = coalesce(excluded.retry_jitter, q.retry_jitter),
    max_ready = coalesce(excluded.max_ready, q.max_ready),
    max_running_per_group = coalesce(excluded.max_running_per_group, q.max_running_per_group)
returning q.queue, q.version, q.paused, q.critical, q.timeout, q.keep_finished, q.max_running,
    q.max_per_second, q.aging, q.max_ready, q.max_running_per_group
