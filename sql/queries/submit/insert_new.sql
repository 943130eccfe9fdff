-- Inserts one task under an id that was just made up, so that it conflicts with nothing.
-- Parameters: $1 id, $2 queue, $3 action, $4 priority, $5 spec, $6 max_tries, $7 timeout,
--   $8 post_result, $9 created.
-- Reads nothing; changes scylla.task. Locks: only what it inserts.
insert into scylla.task
    (id, queue, action, priority, spec, max_tries, timeout, post_result, created, updated, ready)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, true)
