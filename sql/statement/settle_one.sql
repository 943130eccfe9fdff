-- Moves one task to its end, as settle.sql does many, for the way that most tasks go: no error to add.
-- Parameters: $1 the status, $2 now, $3 id, $4 worker, $5 when the ownership began (null where the
--   history tells, or where there was none), $6 the tries to add, $7 progress, $8 result.
-- Result: as many rows processed as were live, which is one or none.
-- Reads scylla.task by primary key; changes scylla.task and scylla.finished.
-- Locks the task's row, waiting for whoever holds it.
with gone as (
    delete from scylla.task t where t.id = $3 returning t.*
)
insert into scylla.finished
    (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, tries,
    num_failures, progress, owned_at, status, key, owner, spec, result, errors, history)
select g.id, g.queue, g.action, g.priority, g.post_result, g.created, $2, g.run_at, g.timeout,
    g.max_tries, g.tries + $6, g.num_failures, $7, $5, $1, g.key, $4, g.spec, $8, g.errors, g.history
from gone g
