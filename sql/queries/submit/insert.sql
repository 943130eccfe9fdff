-- Inserts tasks.
-- Parameters, arrays of one length, or null where no task has such a value: $1 ids, $2 queues, $3
--   actions, $4 priorities, $5 specs, $6 max_tries, $7 timeouts, $8 post_result, $9 created, $10
--   keys, $11 run_at, $12 when the scheduler is to make them ready, $13 retry_interval, $14
--   retry_jitter, $15 after, each as the text of an array, $16 run_on_failure, $17 how many
--   predecessors each waits for, $18 whether others of these wait for it.
-- Result: the id of each task inserted; one whose id or key is live already is passed over.
-- Reads nothing; changes scylla.task. Locks: only what it inserts, in the order given.
insert into scylla.task
    (id, queue, action, priority, spec, max_tries, timeout, post_result, created, updated, key, run_at,
    due, retry_interval, retry_jitter, after, run_on_failure, pending, followed, ready)
select s.id, s.queue, s.action, s.priority, s.spec, s.max_tries, s.timeout, s.post_result,
    s.created, s.created, s.key, s.run_at, s.due, s.retry_interval, s.retry_jitter, s.after::uuid[],
    coalesce(s.run_on_failure, false), coalesce(s.pending, 0), coalesce(s.followed, false),
    s.due is null and s.pending is null
from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
    as s (id, queue, action, priority, spec, max_tries, timeout, post_result, created, key, run_at, due,
        retry_interval, retry_jitter, after, run_on_failure, pending, followed)
on conflict do nothing
returning id
