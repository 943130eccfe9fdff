-- Those of some queues that have settled tasks, with the newest of each.
-- Parameters: those of a filter; $11 queues.
-- Result: queue, and when its last task settled.
-- Reads scylla.finished through the indexes by queue and time; changes and locks nothing.
select q.queue, n.updated
from unnest($11) as q (queue)
cross join lateral (
    select f.updated
    from scylla.finished f
    where f.queue = q.queue
    order by f.updated desc
    limit 1
) n
