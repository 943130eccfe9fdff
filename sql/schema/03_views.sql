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

-- The live tasks of a queue, each part through an index of its own. The planner takes the function apart, so that
-- the conditions of a statement reach each part.
create function scylla._live(queue text) returns setof scylla.task
language sql stable parallel safe rows 1000
as $$
select t.*
from scylla.task t
where t.queue operator(pg_catalog.=) $1 and t.ready and not t.behind and t.group_key is null
union all
select t.*
from scylla.task t
where t.queue operator(pg_catalog.=) $1 and t.ready and not t.behind and t.group_key is not null
union all
select t.*
from scylla.task t
where t.queue operator(pg_catalog.=) $1 and t.behind
union all
select t.*
from scylla.task t
where t.queue operator(pg_catalog.=) $1 and not t.ready and not t.behind
$$;

comment on function scylla._live is 'the live tasks of a queue, for a role that may read the table';

-- Each part has one status, so that a query by status reads no other part, and only what the caller
-- may look at: a condition of the query cannot see the rest, but for PostgreSQL's leakproof operators. The first and the last queue are there
-- for the indexes, which begin with the queue. Columns have the same type and collation in each part:
-- else PostgreSQL plans each part alone. The outer query is the barrier, which a union is not.
create view scylla.tasks with (security_barrier) as
select p.id, p.queue, p.action, p.key, p.spec, p.priority, p.status, p.progress, p.created, p.updated,
    p.run_at, p.deadline, p.owner, p.tries, p.max_tries, p.num_failures, p.after, p.errors, p.result,
    p.history, p.group_key, p.resubmitted_from,
    -- A command may contain a secret.
    pg_catalog.pg_get_userbyid(p.role::pg_catalog.oid) as role, p.database,
    case when pg_catalog.pg_has_role(p.role::pg_catalog.oid, 'usage') then p.command end as command, p.meta
from (
    -- Owned: the board knows the worker. A lease that ends meanwhile has no deadline any more.
    -- By _is_owned, which costs more than an index, no plan reads all tasks to find these.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'running'::pg_catalog.text collate "C" as status, coalesce(l.progress, 0) as progress,
        t.created, t.updated, t.run_at, l.deadline, o.owner collate "C" as owner,
        t.tries operator(pg_catalog.+) (not coalesce(l.recorded, false))::pg_catalog.int4 as tries,
        t.max_tries, t.num_failures,
        coalesce(t.after, '{}') as after, t.errors, null::pg_catalog.jsonb as result,
        scylla._history_with(
            t.history, o.owner, case when not l.recorded then l.owned_at end) as history,
        t.group_key, t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla._owned(true) o
    join scylla.task t
        on t.queue operator(pg_catalog.=) o.queue and t.id operator(pg_catalog.=) any (o.tasks)
        and scylla._is_owned(t.id)
    left join lateral scylla._leases(t.id) l on true
    union all
    -- Reserved by another open transaction: it has an owner already.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, o.owner collate "C", t.tries, t.max_tries, t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla._owned(false) o
    join scylla.task t
        on t.queue operator(pg_catalog.=) o.queue and t.id operator(pg_catalog.=) any (o.tasks)
        and scylla._is_owned(t.id)
    union all
    -- Ready and not owned. Tasks of groups have an index of their own, and those behind others.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla.task t
    where t.ready and not t.behind and t.group_key is null and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla.task t
    where t.ready and not t.behind and t.group_key is not null and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla.task t
    where t.ready and t.behind and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    -- A task whose lease has expired a moment ago is still owned, and waits already.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'waiting'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command, t.meta
    from scylla.task t
    where not t.ready and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    select f.id, f.queue, f.action, f.key, f.spec, f.priority,
        f.status, f.progress, f.created, f.updated, f.run_at,
        null::pg_catalog.timestamptz, f.owner, f.tries, f.max_tries, f.num_failures,
        coalesce(f.after, '{}'), f.errors, f.result,
        scylla._history_with(f.history, f.owner, f.owned_at), f.group_key, f.resubmitted_from,
        f.role, f.database, f.command, f.meta
    from scylla.finished f
    where f.queue operator(pg_catalog.>=) scylla._first_queue()
        and f.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(f.queue)
) p;

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
comment on column scylla.tasks.meta is 'what a client noted about the task; null: nothing';

create view scylla.failed with (security_barrier) as
select f.id, f.queue, f.action, f.key, f.spec,
    -- The last one that tells the cause.
    coalesce(
        pg_catalog.jsonb_path_query_array(f.errors, '$[*] ? (!(@.code == "tries_exhausted"))')
            operator(pg_catalog.->) -1,
        f.errors operator(pg_catalog.->) -1) as error,
    f.tries, f.updated, f.resubmitted_as
from scylla.finished f
where f.status operator(pg_catalog.=) 'aborted'
    and f.queue operator(pg_catalog.>=) scylla._first_queue()
    and f.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(f.queue)
order by f.updated using operator(pg_catalog.>);

comment on view scylla.failed is 'aborted tasks, the newest first';
comment on column scylla.failed.id is 'the task''s id';
comment on column scylla.failed.queue is 'the queue that workers serve';
comment on column scylla.failed.action is 'what to do, within the queue';
comment on column scylla.failed.key is 'the name that it had; null: none';
comment on column scylla.failed.spec is 'what the task is about';
comment on column scylla.failed.error is
    'the last thing that went wrong; that the tries are used up only where nothing else did';
comment on column scylla.failed.tries is 'how many times the task was owned';
comment on column scylla.failed.updated is 'when the task was aborted';
comment on column scylla.failed.resubmitted_as is
    'the task that repeats it, the latest of several; null: none does';

-- needs look on the queues in filter
create function scylla.list_tasks(filter jsonb, after uuid default null, max_tasks integer default 100)
returns setof scylla.tasks
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_list_tasks';

comment on function scylla.list_tasks is
    'a page of the tasks that a filter takes, the newest first; after: the last id of the page before';
