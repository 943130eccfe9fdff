-- Frees the keys of tasks that were replaced.
-- Parameters: $1 queues and $2 keys, arrays of one length; $3 the tasks.
-- Reads scylla.kept_key by primary key; changes it. Waits for another transaction that keeps the same
-- key.
delete from scylla.kept_key k
using unnest($1, $2) as w (queue, key)
where k.queue = any ($1) and k.key = any ($2) and k.queue = w.queue and k.key = w.key and k.task = any ($3)
