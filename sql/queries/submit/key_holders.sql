-- Which live tasks have some keys.
-- Parameters, arrays of one length: $1 queues, $2 keys.
-- Result: of each pair that a task has, its place in the arrays, from 1, and the task's id.
-- Reads scylla.task through the index task_key; changes and locks nothing.
select k.place, t.id
from unnest($1, $2) with ordinality as k (queue, key, place)
cross join lateral (
    select o.id from scylla.task o where o.queue = k.queue and o.key = k.key offset 0
) t
