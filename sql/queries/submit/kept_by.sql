-- Which keys are kept for other tasks.
-- Parameters, arrays of one length: $1 queues, $2 keys, $3 the tasks that want them, $4 the settled tasks
--   that these repeat, or nulls; $5 now.
-- Result: of each key that is kept for another task its position in the arrays, from 1, and that task's id.
-- Reads scylla.kept_key by primary key; changes and locks nothing.
select w.position, k.task
from unnest($1, $2, $3, $4) with ordinality as w (queue, key, task, repeated, position)
join scylla.kept_key k on k.queue = w.queue and k.key = w.key
where k.until > $5 and k.task <> w.task and k.task is distinct from w.repeated
