-- Live tasks as the view tasks shows them.
-- Parameters: arrays of one length: $1 ids, and of the lease of each, null where it has none: $2 worker,
--   $3 when the ownership began (null beside a worker: another open transaction has reserved the task),
--   $4 deadline, $5 progress, $6 whether the history has it; $7 the role for which it is.
-- Result: the columns of the view, in no order.
-- Reads scylla.task by primary key; changes and locks nothing.
select t.id, t.queue, t.action, t.key, t.spec, t.priority,
    case
        when l.owned_at is not null then 'running'
        when t.ready or l.owner is not null then 'ready'
        else 'waiting'
    end as status,
    case when l.owned_at is not null then coalesce(l.progress, 0) else 0 end as progress,
    t.created, t.updated, t.run_at, l.deadline, l.owner,
    t.tries + (l.owned_at is not null and not coalesce(l.recorded, false))::integer as tries,
    t.max_tries, t.num_failures, coalesce(t.after, '{}') as after, t.errors, null::jsonb as result,
    scylla._history_with(
        t.history, l.owner, case when not l.recorded then l.owned_at end) as history,
    t.group_key, t.resubmitted_from, pg_get_userbyid(t.role::oid) as role, t.database,
    case when pg_has_role($7, t.role::oid, 'usage') then t.command end as command, t.meta
from unnest($1, $2, $3, $4, $5, $6) as l (id, owner, owned_at, deadline, progress, recorded)
join scylla.task t on t.id = any ($1) and t.id = l.id
