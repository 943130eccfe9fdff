-- Which queues run the tasks of each group in their order.
-- Parameter: $1 names of queues. Result: the names of those that do.
-- Reads scylla.queue by primary key; changes and locks nothing.
select q.queue
from scylla.queue q
where q.queue = any ($1) and q.max_running_per_group = 1
