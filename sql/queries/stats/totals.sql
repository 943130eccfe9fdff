-- The totals of all queues, those with settings only included.
-- Result: the queue; since when it is counted, and what happened in it, null where nothing is written.
-- Reads all of scylla.queue_total and scylla.queue; changes and locks nothing.
select coalesce(t.queue, q.queue), t.since, t.events, t.ready_to_owned, t.owned_to_settled
from scylla.queue_total t
full join scylla.queue q on q.queue = t.queue
