-- Gives tasks back: after a retry, a yield or an expired lease they are ready again; those that had
-- their last try are aborted instead.
-- Parameters: $1 the history's word for it (TaskRetry, TaskYield, TaskTimeout); $2 now; arrays of
--   one length: $3 ids, in ascending order, $4 workers, $5 when the ownership began, $6 whether the
--   history tells of it already, $7 progress, $8 errors; the server's settings: $9 max_tries (0: no
--   limit), $10 retry_interval, $11 retry_jitter.
-- Result: of each task the id, the status (ready, aborted), whether others wait for it, whether its
--   result may be waited for, whether it was ready, its queue, of an aborted one the schedule whose run it was, and of a ready one the
--   retry_interval and retry_jitter that hold for it, and the tries so far; one that is not live any
--   more is passed over.
-- Reads scylla.task and scylla.queue by primary key; changes scylla.task and scylla.finished.
-- Locks the tasks' rows in the order given, waiting for other transactions' locks.
with ended as (
    select e.*, p.most_tries, p.retry_interval, p.retry_jitter
    from unnest($3, $4, $5, $6, $7, $8)
        as e (id, worker, owned_at, recorded, progress, error)
    -- What is read here of a task never changes.
    cross join lateral (
        select nullif(coalesce(t.max_tries, q.max_tries, $9), 0) as most_tries,
            coalesce(t.retry_interval, q.retry_interval, $10) as retry_interval,
            coalesce(t.retry_jitter, q.retry_jitter, $11) as retry_jitter
        from scylla.task t
        left join lateral (
            select o.* from scylla.queue o where o.queue = t.queue offset 0
        ) q on true
        where t.id = e.id
        offset 0
    ) p
), freed as (
    update scylla.task t
    set tries = t.tries + case when e.recorded or $1 = 'TaskYield' then 0 else 1 end,
        updated = $2,
        errors = case when e.error is null then t.errors
            else scylla._errors_with(t.errors, e.error) end,
        history = scylla._newest(
            scylla._history_with(t.history, e.worker, case when not e.recorded then e.owned_at end)
            || pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
                '_typ', $1, 'worker', e.worker, 'progress', e.progress, 'time', $2)))
    from ended e
    where t.id = any ($3) and t.id = e.id
        and (e.most_tries is null or $1 = 'TaskYield'
            or t.tries + case when e.recorded then 0 else 1 end < e.most_tries)
    returning t.id, t.queue, e.retry_interval, e.retry_jitter, t.tries
), exhausted as (
    delete from scylla.task t
    using ended e
    where t.id = any ($3) and t.id = e.id
        and e.most_tries is not null and $1 <> 'TaskYield'
        and t.tries + case when e.recorded then 0 else 1 end >= e.most_tries
    returning t.*, e.worker, e.owned_at, e.recorded, e.progress, e.error, e.most_tries
), aborted as (
    insert into scylla.finished
        (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries,
        retry_interval, retry_jitter, tries, num_failures, progress, status, key, owner, group_key,
        schedule, role, database, command, after, resubmitted_from, spec, errors, history,
        database_oid, meta)
    select x.id, x.queue, x.action, x.priority, x.post_result, x.created, $2, x.run_at, x.timeout,
        x.max_tries, x.retry_interval, x.retry_jitter,
        x.tries + case when x.recorded then 0 else 1 end, x.num_failures, x.progress,
        'aborted', x.key, x.worker, x.group_key, x.schedule, x.role, x.database, x.command, x.after,
        x.resubmitted_from, x.spec,
        scylla._errors_with(
            case when x.error is null then x.errors
                else scylla._errors_with(x.errors, x.error) end,
            case
                -- The process that ran the command ended before it reported an outcome.
                when $1 = 'TaskTimeout' and x.command is not null
                then pg_catalog.jsonb_build_object(
                    'code', 'outcome_unknown', 'args', '{}'::jsonb,
                    'description', 'the process that ran the command ended; whether the command '
                        'was committed is not known')
                else pg_catalog.jsonb_build_object(
                    'code', 'tries_exhausted',
                    'args', pg_catalog.jsonb_build_object('max_tries', x.most_tries),
                    'description', 'the task had all the tries it may have')
            end),
        scylla._newest(
            scylla._history_with(x.history, x.worker, case when not x.recorded then x.owned_at end)
            || pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
                '_typ', $1, 'worker', x.worker, 'progress', x.progress, 'time', $2))),
        x.database_oid, x.meta
    from exhausted x
)
select f.id, 'ready', false, false, true, f.queue, null,
    f.retry_interval, f.retry_jitter, f.tries
from freed f
union all
select x.id, 'aborted', x.followed, x.post_result, x.ready, x.queue, x.schedule, null, null, null
from exhausted x
