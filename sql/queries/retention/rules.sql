-- The queues that keep settled tasks for a time of their own.
-- No parameters. Result: queue, retention.
-- Reads scylla.queue; changes and locks nothing.
select q.queue, q.retention from scylla.queue q where q.retention is not null
