-- Ends the binding of a pattern to a queue.
-- Parameters: $1 pattern, $2 queue. Result: one row if it was bound.
-- Changes scylla.message_topic, and locks the row.
delete from scylla.message_topic t where t.pattern = $1 and t.queue = $2
returning t.queue
