-- Which live tasks have some keys.
-- Parameters: $1 queues and $2 keys, arrays of one length; $3 whether runs of SQL commands count, too,
--   which have a space of their own.
-- Result: of each pair that a task has, its position in the arrays, from 1, and the task's id: a run's
--   where both have it.
-- Reads scylla.task through the index task_key; changes and locks nothing.
select k.position, t.id
from unnest($1, $2) with ordinality as k (queue, key, position)
cross join lateral (
    select o.id from scylla.task o
    where o.queue = k.queue and o.key = k.key
        and ($3 or not (o.schedule is not null and o.command is not null))
    order by o.schedule is not null and o.command is not null desc
    limit 1
) t
