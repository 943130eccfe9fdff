-- Moves tasks to their end that one worker owned at one time and returns alike, as settle.sql does any:
-- cheaper, since nothing is unpacked and joined.
-- Parameters: $1 the status, $2 now, $3 ids, $4 worker, $5 when the ownership began (null where the
--   history tells, or where there was none), $6 the tries to add, $7 progress, $8 result.
-- Result: of each task moved the id, whether others wait for it, and whether its result may be waited for.
-- Reads scylla.task by primary key; changes scylla.task and scylla.finished.
-- Locks the tasks' rows in primary-key order, waiting for whoever holds one.
with gone as (
    delete from scylla.task t where t.id = any ($3) returning t.*
), moved as (
    insert into scylla.finished
        (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, tries,
        num_failures, progress, owned_at, status, key, owner, after, spec, result, errors, history)
    select g.id, g.queue, g.action, g.priority, g.post_result, g.created, $2, g.run_at, g.timeout,
        g.max_tries, g.tries + $6, g.num_failures, $7, $5, $1, g.key, $4, g.after, g.spec, $8, g.errors,
        g.history
    from gone g
)
select g.id, g.followed, g.post_result from gone g
