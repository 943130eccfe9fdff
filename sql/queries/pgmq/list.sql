-- The queues of the schema pgmq.
-- No parameters. Result: queue, name, whether it is partitioned, whether it is unlogged, when it was created, how
--   often a session notifies.
-- Reads scylla.message_queue; changes and locks nothing.
select q.queue, q.name, q.partitioned, q.unlogged, q.created, q.notify_interval
from scylla.message_queue q
order by q.created, q.queue
