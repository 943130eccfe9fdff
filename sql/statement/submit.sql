-- Inserts tasks that can run at once.
-- Parameters, arrays of one length: $1 ids, $2 queues, $3 actions, $4 priorities, $5 specs,
--   $6 max_tries, $7 timeouts, $8 post_result, $9 created.
-- Result: the id of each task inserted; an id that is live already is passed over.
-- Reads nothing; changes scylla.task. Locks: only what it inserts, in the order given.
insert into scylla.task
    (id, queue, action, priority, spec, max_tries, timeout, post_result, created, updated, ready)
select s.id, s.queue, s.action, s.priority, s.spec, s.max_tries, s.timeout, s.post_result,
    s.created, s.created, true
from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
    as s (id, queue, action, priority, spec, max_tries, timeout, post_result, created)
on conflict (id) do nothing
returning id
