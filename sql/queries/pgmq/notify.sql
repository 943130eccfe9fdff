-- Sets how often a session notifies of a queue's messages.
-- Parameters: $1 queue, $2 the interval in milliseconds, null: never; $3 only if it notifies already.
-- Result: one row if that is so.
-- Changes scylla.message_queue, and locks the row.
update scylla.message_queue q set notify_interval = $2
where q.queue = $1 and (not $3 or q.notify_interval is not null)
returning q.queue
