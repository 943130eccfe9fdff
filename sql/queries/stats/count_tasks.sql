-- Counts the live tasks of each queue.
-- Result: the queue, how many are ready, running ones included, and how many wait.
-- Reads all of scylla.task, under the snapshot that the caller announced; changes and locks nothing.
select t.queue, count(*) filter (where t.ready), count(*) filter (where not t.ready)
from scylla.task t
group by t.queue
