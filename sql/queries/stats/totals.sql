-- The totals of all queues, those with settings only included.
-- Result: the queue; since when it is counted, what happened in it, the two histograms, and their sums in
--   microseconds; null where nothing is written.
-- Reads all of scylla.queue_total and scylla.queue; changes and locks nothing.
select coalesce(t.queue, q.queue), t.since, t.events, t.ready_to_owned, t.owned_to_settled,
    array[t.ready_to_owned_sum, t.owned_to_settled_sum]
from scylla.queue_total t
full join scylla.queue q on q.queue = t.queue
