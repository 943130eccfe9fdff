-- The next queue that keeps the order.
-- Parameters: $1 the queue behind which to begin. Result: its name; no row: there are none.
-- Reads scylla.queue; changes and locks nothing.
select q.queue
from scylla.queue q
where q.queue > $1 and q.max_running_per_group = 1
order by q.queue
limit 1
