-- What the board keeps of the queues' settings.
-- No parameters. Result: queue, version, paused, critical, timeout, keep_finished, max_running,
--   max_per_second, aging, max_ready, max_running_per_group.
-- Reads scylla.queue; changes and locks nothing.
select q.queue, q.version, q.paused, q.critical, q.timeout, q.keep_finished, q.max_running,
    q.max_per_second, q.aging, q.max_ready, q.max_running_per_group
from scylla.queue q
