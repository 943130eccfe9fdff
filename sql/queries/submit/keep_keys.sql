-- Keeps keys for tasks.
-- Parameters, arrays of one length: $1 queues, $2 keys, $3 the tasks, $4 the settled tasks that these
--   repeat, or nulls, $5 until when; $6 now.
-- Result: the tasks whose keys are kept. A task whose key is kept for another one is left out.
-- Changes scylla.kept_key. Waits for another transaction that keeps the same key.
insert into scylla.kept_key as k (queue, key, task, until)
select w.queue, w.key, w.task, w.until
from unnest($1, $2, $3, $5) as w (queue, key, task, until)
on conflict (queue, key) do update set task = excluded.task, until = excluded.until
where k.until <= $6 or k.task = any ($4)
returning task
