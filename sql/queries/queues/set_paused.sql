-- Pauses a queue, or ends its pause.
-- Parameters: $1 queue, $2 whether it is paused from now on.
-- Result: as of read.sql; no row when nothing changes.
-- Reads and changes scylla.queue by primary key. Locks the queue's row, waiting for a transaction
-- that has it locked.
insert into scylla.queue as q (queue, version, paused)
values ($1, 1, $2)
on conflict (queue) do update
set version = q.version + 1, paused = excluded.paused
where q.paused <> excluded.paused
returning q.queue, q.version, q.paused, q.critical, q.timeout, q.keep_finished, q.max_running,
    q.max_per_second, q.aging, q.max_ready, q.max_running_per_group
