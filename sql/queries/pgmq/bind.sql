-- Binds a pattern to a queue, if it is not bound yet.
-- Parameters: $1 pattern, $2 queue.
-- Changes scylla.message_topic. Locks only what it inserts.
insert into scylla.message_topic (pattern, queue) values ($1, $2)
on conflict (queue, pattern) do nothing
