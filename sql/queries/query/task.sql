-- One task, whole: all that the tables and its lease tell of it.
-- Parameters: $1 id; of its lease, null if it has none: $2 worker, $3 when the ownership began,
--   $4 deadline, $5 progress, $6 whether the history tells of it already. $2 without $3: another
--   transaction has reserved the task.
-- Result: one jsonb, and the queue, or no row when there is no such task.
-- Reads scylla.task and scylla.finished; changes and locks nothing.
select pg_catalog.jsonb_build_object(
    'rn', e.id, 'queue', e.queue, 'action', e.action, 'key', e.key, 'spec', e.spec,
    'priority', e.priority, 'status', e.status, 'progress', e.progress,
    'created', e.created, 'updated', e.updated, 'run_at', e.run_at, 'deadline', e.deadline,
    'owner', e.owner, 'tries', e.tries, 'max_tries', e.max_tries, 'num_failures', e.num_failures,
    'after', coalesce(pg_catalog.to_jsonb(e.after), '[]'), 'errors', e.errors, 'result', e.result,
    'history', e.history, 'group_key', e.group_key,
    'resubmitted_from', e.resubmitted_from, 'meta', e.meta), e.queue
from (
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        case when $3 is not null then 'running' when t.ready then 'ready' else 'waiting' end
            as status,
        coalesce($5, 0) as progress, t.created, t.updated, t.run_at, $4 as deadline, $2 as owner,
        t.tries + case when $6 then 0 when $2 is null then 0 else 1 end as tries,
        t.max_tries, t.num_failures, t.after, t.errors, null::pg_catalog.jsonb as result,
        scylla._history_with(t.history, $2, case when not $6 then $3 end) as history,
        t.group_key, t.resubmitted_from, t.meta
    from scylla.task t
    where t.id = $1
    union all
    select f.id, f.queue, f.action, f.key, f.spec, f.priority, f.status, f.progress,
        f.created, f.updated, f.run_at, null, f.owner, f.tries, f.max_tries, f.num_failures,
        f.after, f.errors, f.result, scylla._history_with(f.history, f.owner, f.owned_at),
        f.group_key, f.resubmitted_from, f.meta
    from scylla.finished f
    where f.id = $1
) e
limit 1
