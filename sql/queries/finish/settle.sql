-- Moves tasks to their end: out of the live tasks, into the finished ones.
-- Parameters: $2 now; arrays of one length: $1 statuses, $3 ids, in ascending order, $4 workers, $5 when the
--   ownership began (null where there was none), $6 whether the history tells of it already, $7 progress, $8 results, $9 errors, $10 whether the task is to be deleted instead,
--   unless its result may be waited for.
-- Result: of each task moved the id, whether others wait for it, whether its result may be waited
--   for, whether it was ready, its queue, and the schedule whose run it was; one that is not live any more is passed over.
-- Reads scylla.task by primary key; changes scylla.task and scylla.finished.
-- Locks the tasks' rows in the order given, waiting for other transactions' locks.
with ended as (
    select *
    from unnest($3, $4, $5, $6, $7, $8, $9, $10, $1)
        as e (id, worker, owned_at, recorded, progress, result, error, is_discarded, status)
), gone as (
    delete from scylla.task t
    using ended e
    where t.id = any ($3) and t.id = e.id
    returning t.*, e.worker, e.owned_at, e.recorded, e.progress, e.result, e.error, e.is_discarded,
        e.status
), moved as (
    insert into scylla.finished
        (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries,
        retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner,
        group_key, schedule, role, database, command, after, resubmitted_from, spec, result,
        errors, history, database_oid, meta)
    select g.id, g.queue, g.action, g.priority, g.post_result, g.created, $2, g.run_at, g.timeout,
        g.max_tries, g.retry_interval, g.retry_jitter,
        g.tries + case when g.owned_at is null or g.recorded then 0 else 1 end,
        g.num_failures, g.progress,
        case when not g.recorded then g.owned_at end,
        g.status, g.key, g.worker, g.group_key, g.schedule, g.role, g.database, g.command, g.after,
        g.resubmitted_from, g.spec, g.result,
        case when g.error is null then g.errors
            else scylla._errors_with(g.errors, g.error) end,
        g.history, g.database_oid, g.meta
    from gone g
    where g.post_result or not g.is_discarded
)
select g.id, g.followed, g.post_result, g.ready, g.queue, g.schedule from gone g
