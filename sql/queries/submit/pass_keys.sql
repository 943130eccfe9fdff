-- Passes kept keys on to the tasks that repeat those for which they were kept.
-- Parameters, arrays of one length: $1 queues, $2 keys, $3 the tasks, $4 the settled tasks that these
--   repeat, or nulls.
-- Reads scylla.kept_key by primary key; changes it. Waits for another transaction that keeps the same
-- key.
update scylla.kept_key k
set task = w.task
from unnest($1, $2, $3, $4) as w (queue, key, task, repeated)
where k.queue = any ($1) and k.key = any ($2) and k.queue = w.queue and k.key = w.key and k.task = w.repeated
