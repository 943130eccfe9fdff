-- The newest 100 entries of a history.
create function scylla._newest(entries jsonb) returns jsonb
language sql immutable parallel safe
return case
    when pg_catalog.jsonb_array_length(entries) <= 100 then entries
    else pg_catalog.jsonb_path_query_array(entries, '$[last - 99 to last]')
end;

comment on function scylla._newest is 'the newest 100 entries of a jsonb array';

-- A history together with the ownership that it does not tell of yet; null: none.
create function scylla._history_with(history jsonb, worker text, owned_at timestamptz) returns jsonb
language sql stable parallel safe
return case
    when owned_at is null then history
    else scylla._newest(history operator(pg_catalog.||) pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_object('_typ', 'TaskAssignment', 'worker', worker, 'time', owned_at)))
end;

comment on function scylla._history_with is 'a history with one more assignment at its end';

-- Each part has only what the caller may look at. A condition of the query cannot see the rest.
create view scylla.tasks with (security_barrier) as
-- The board is read once, so that no task is seen twice or not at all.
with lease as materialized (
    select * from scylla._leases()
)
-- Owned: the board knows the worker.
select t.id, t.queue, t.action, t.key, t.spec, t.priority,
    'running'::pg_catalog.text as status, l.progress, t.created, t.updated, t.run_at,
    l.deadline, l.owner,
    t.tries operator(pg_catalog.+) (not l.recorded)::pg_catalog.int4 as tries, t.max_tries,
    t.num_failures,
    coalesce(t.after, '{}') as after, t.errors, null::pg_catalog.jsonb as result,
    scylla._history_with(
        t.history, l.owner, case when not l.recorded then l.owned_at end) as history,
    t.group_key, t.resubmitted_from,
    -- A command may contain a secret.
    pg_catalog.pg_get_userbyid(t.role::pg_catalog.oid) as role, t.database,
    case when pg_catalog.pg_has_role(t.role::pg_catalog.oid, 'usage') then t.command end as command
from lease l
join scylla.task t on t.id operator(pg_catalog.=) l.id
where l.owned_at is not null and scylla._may_look(t.queue)
union all
-- Live, and not owned; a task that another open transaction has reserved has an owner already.
select t.id, t.queue, t.action, t.key, t.spec, t.priority,
    case when t.ready then 'ready' else 'waiting' end, 0, t.created, t.updated, t.run_at,
    null, l.owner, t.tries, t.max_tries, t.num_failures,
    coalesce(t.after, '{}'), t.errors, null, t.history, t.group_key, t.resubmitted_from,
    pg_catalog.pg_get_userbyid(t.role::pg_catalog.oid), t.database,
    case when pg_catalog.pg_has_role(t.role::pg_catalog.oid, 'usage') then t.command end
from scylla.task t
left join lease l on l.id operator(pg_catalog.=) t.id
where l.owned_at is null and scylla._may_look(t.queue)
union all
select f.id, f.queue, f.action, f.key, f.spec, f.priority,
    f.status, f.progress, f.created, f.updated, f.run_at,
    null, f.owner, f.tries, f.max_tries, f.num_failures,
    coalesce(f.after, '{}'), f.errors, f.result,
    scylla._history_with(f.history, f.owner, f.owned_at), f.group_key, f.resubmitted_from,
    pg_catalog.pg_get_userbyid(f.role::pg_catalog.oid), f.database,
    case when pg_catalog.pg_has_role(f.role::pg_catalog.oid, 'usage') then f.command end
from scylla.finished f
where scylla._may_look(f.queue);

comment on view scylla.tasks is 'all tasks, live and settled, with their leases';
comment on column scylla.tasks.id is 'the task''s id';
comment on column scylla.tasks.queue is 'the queue that workers serve';
comment on column scylla.tasks.action is 'what to do, within the queue';
comment on column scylla.tasks.key is
    'a name that is unique among the queue''s unfinished tasks; null: none';
comment on column scylla.tasks.spec is 'what the task is about';
comment on column scylla.tasks.priority is 'higher runs first, 0 to 4294967295';
comment on column scylla.tasks.status is 'waiting, ready, running, completed, aborted or cancelled';
comment on column scylla.tasks.progress is 'the worker''s progress, 0 to 1';
comment on column scylla.tasks.created is
    'when the task was submitted; among equal priorities the oldest runs first';
comment on column scylla.tasks.updated is 'when the task''s row was last written';
comment on column scylla.tasks.run_at is 'not to run before; null: at once';
comment on column scylla.tasks.deadline is
    'when the lease expires; null: it never does, or the task is not running';
comment on column scylla.tasks.owner is
    'the worker that owns the task, is about to, or owned it last if it has settled';
comment on column scylla.tasks.tries is 'how many times the task was owned';
comment on column scylla.tasks.max_tries is 'how many tries the task gets; null: no limit';
comment on column scylla.tasks.num_failures is 'predecessors that were aborted or cancelled';
comment on column scylla.tasks.after is 'all predecessors that the task was given';
comment on column scylla.tasks.errors is 'what went wrong so far, newest last, 100 at most';
comment on column scylla.tasks.result is
    'what the worker returned; null: nothing, or the task has not completed';
comment on column scylla.tasks.history is 'ownerships and how they ended, newest last, 100 at most';
comment on column scylla.tasks.group_key is 'the task''s group, within the queue; null: none';
comment on column scylla.tasks.resubmitted_from is
    'the aborted or cancelled task that this one repeats; null: none';
comment on column scylla.tasks.role is
    'with whose rights the server runs the command; null: a worker does the task';
comment on column scylla.tasks.database is 'where the command runs; null: in this database';
comment on column scylla.tasks.command is
    'the SQL command that the server runs; null: a worker does the task, or you have no rights of the role';

create view scylla.failed with (security_barrier) as
select f.id, f.queue, f.action, f.key, f.spec,
    f.errors operator(pg_catalog.->) -1 as error,
    f.tries, f.updated
from scylla.finished f
where f.status operator(pg_catalog.=) 'aborted' and scylla._may_look(f.queue)
order by f.updated using operator(pg_catalog.>);

comment on view scylla.failed is 'aborted tasks, the newest first';
comment on column scylla.failed.id is 'the task''s id';
comment on column scylla.failed.queue is 'the queue that workers serve';
comment on column scylla.failed.action is 'what to do, within the queue';
comment on column scylla.failed.key is 'the name that it had; null: none';
comment on column scylla.failed.spec is 'what the task is about';
comment on column scylla.failed.error is 'the last thing that went wrong';
comment on column scylla.failed.tries is 'how many times the task was owned';
comment on column scylla.failed.updated is 'when the task was aborted';
