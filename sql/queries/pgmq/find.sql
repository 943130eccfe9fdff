-- A queue of the schema pgmq.
-- Parameters: $1 queue. Result: how often a session notifies of its messages, in milliseconds, or
--   null, and its name as it was created; no row when it was not created.
-- Reads scylla.message_queue by its key; changes and locks nothing.
select q.notify_interval, q.name from scylla.message_queue q where q.queue = $1
