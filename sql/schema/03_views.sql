-- The newest 100 entries of a history or of errors.
create function scylla.newest(entries jsonb) returns jsonb
language sql immutable parallel safe
return case
    when pg_catalog.jsonb_array_length(entries) <= 100 then entries
    else pg_catalog.jsonb_path_query_array(entries, '$[last - 99 to last]')
end;

comment on function scylla.newest is 'the newest 100 entries of a jsonb array';

-- A history together with the ownership that it does not tell of yet; null: none.
create function scylla.history_with(history jsonb, worker text, owned_at timestamptz) returns jsonb
language sql stable parallel safe
return case
    when owned_at is null then history
    else scylla.newest(history operator(pg_catalog.||) pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_object('_typ', 'TaskAssignment', 'worker', worker, 'time', owned_at)))
end;

comment on function scylla.history_with is 'a history with one more assignment at its end';

create view scylla.tasks as
-- One look at the board, lest a task be seen twice or not at all.
with lease as materialized (
    select * from scylla.leases()
)
-- Owned: the board knows by whom.
select t.id, t.queue, t.action, t.key, t.spec, t.priority,
    'running'::text as status, l.progress, t.created, t.updated, t.run_at,
    l.deadline, l.owner, t.tries + (not l.recorded)::integer as tries, t.max_tries, t.num_failures,
    coalesce(t.after, '{}') as after, t.errors, null::jsonb as result,
    scylla.history_with(t.history, l.owner, case when not l.recorded then l.owned_at end) as history
from lease l
join scylla.task t on t.id = l.id
union all
-- Live, and nobody's.
select t.id, t.queue, t.action, t.key, t.spec, t.priority,
    case when t.ready then 'ready' else 'waiting' end, 0, t.created, t.updated, t.run_at,
    null, null, t.tries, t.max_tries, t.num_failures,
    coalesce(t.after, '{}'), t.errors, null, t.history
from scylla.task t
where not exists (select from lease l where l.id = t.id)
union all
select f.id, f.queue, f.action, f.key, f.spec, f.priority,
    f.status, f.progress, f.created, f.updated, f.run_at,
    null, f.owner, f.tries, f.max_tries, f.num_failures,
    coalesce(f.after, '{}'), f.errors, f.result, scylla.history_with(f.history, f.owner, f.owned_at)
from scylla.finished f;

comment on view scylla.tasks is 'all tasks, live and settled, with the leases that stand';
