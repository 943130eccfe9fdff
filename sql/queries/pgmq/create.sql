-- Creates a queue of the schema pgmq, unless it is there.
-- Parameters: $1 queue, $2 its name, $3 whether it is partitioned, $4 whether it is unlogged.
-- Result: one row if it was created.
-- Changes scylla.message_queue. Locks only what it inserts; waits for another creation of the queue.
insert into scylla.message_queue (queue, name, partitioned, unlogged)
values ($1, $2, $3, $4)
on conflict (queue) do nothing
returning queue
