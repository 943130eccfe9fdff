\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0.

-- Searching the table for what the board has no room for.

create function scylla._may_own(task uuid, writer xid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_may_own';

comment on function scylla._may_own is
    'whether nothing holds a ready task, and another transaction wrote its row';

create function scylla._group_may_run(queue text, group_hash uuid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_group_may_run';

comment on function scylla._group_may_run is 'whether one more task of a group may be owned';

grant execute on function scylla._may_own, scylla._group_may_run to public;

-- The order of groups lives in the table.

alter table scylla.task add column behind boolean not null default false;

comment on column scylla.task.behind is
    'in a queue with max_running_per_group 1: an older task of its group runs first';

drop index scylla.task_lane, scylla.task_group_lane, scylla.task_line;

create index task_lane on scylla.task
    (queue, action, (operator(pg_catalog.-) priority), created, id)
where ready and not behind and group_key is null;
create index task_group_lane on scylla.task
    (queue, action, scylla._group_hash(group_key), (operator(pg_catalog.-) priority), created, id)
where ready and not behind and group_key is not null;
create index task_first on scylla.task
    (queue, scylla._group_hash(coalesce(group_key, '')), created, id)
where (ready or held) and not behind and (group_key is not null or held);
create index task_behind on scylla.task
    (queue, scylla._group_hash(coalesce(group_key, '')), created, id)
where behind;

comment on index scylla.task_lane is 'the ready order of each lane, from where a refill reads';
comment on index scylla.task_group_lane is
    'the ready order of each group''s lane, from where a refill reads';
comment on index scylla.task_first is
    'the tasks of a group that were ready once and are behind none, in the order of submission';
comment on index scylla.task_behind is
    'the tasks that an older one of their group runs before, in the order of submission';

-- SQL tasks: the processes are shared by roles.
create index task_command on scylla.task
    ((role::pg_catalog.oid), (operator(pg_catalog.-) priority), created, id)
where ready and command is not null;
comment on index scylla.task_command is 'the ready SQL commands of each role, the best first';

alter table scylla.schedule add column group_key text collate "C";
comment on column scylla.schedule.group_key is
    'the group of the runs of an SQL command; null: that of their role';

-- The keys of the runs of SQL commands have a space of their own.
drop index scylla.task_key;
create unique index task_key on scylla.task
    (key, queue, (schedule is not null and command is not null))
where key is not null;
comment on index scylla.task_key is
    'one live task a queue and key, apart from the runs of SQL commands';
-- Rights: a name is that of one job of a role. Of several the first keeps it.
update scylla.schedule s set job = null
where exists (
    select from scylla.schedule o
    where o.job operator(pg_catalog.=) s.job
        and o.owner::pg_catalog.oid operator(pg_catalog.=) s.owner::pg_catalog.oid
        and o.id operator(pg_catalog.<) s.id);

drop index scylla.schedule_job;
create unique index schedule_job on scylla.schedule (job, (owner::pg_catalog.oid))
where job is not null and owner::pg_catalog.oid operator(pg_catalog.<>) 0::pg_catalog.oid;
comment on index scylla.schedule_job is 'one job of the schema cron per name and role';

-- Rights: a command runs in the database that its name meant when it was given.
create type scylla.database;

create function scylla._database_in(cstring) returns scylla.database
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_in';

comment on function scylla._database_in is 'reads a database by its name; a missing one is no database';

create function scylla._database_out(scylla.database) returns cstring
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_out';

comment on function scylla._database_out is 'writes the name of a database';

create type scylla.database (
    input = scylla._database_in,
    output = scylla._database_out,
    like = pg_catalog.oid
);

comment on type scylla.database is 'a database, stored by oid and dumped by name';

create cast (scylla.database as pg_catalog.oid) without function as assignment;
create cast (pg_catalog.oid as scylla.database) without function as assignment;

comment on cast (scylla.database as pg_catalog.oid) is 'the oid of a database';
comment on cast (pg_catalog.oid as scylla.database) is 'the database of an oid';

alter table scylla.task add column database_oid scylla.database;
comment on column scylla.task.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.task t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

alter table scylla.finished add column database_oid scylla.database;
comment on column scylla.finished.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.finished t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

alter table scylla.schedule add column database_oid scylla.database;
comment on column scylla.schedule.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.schedule t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

-- Rights: who writes a command needs the rights of its role, and may become that role.
create function scylla._may_act_as(role scylla.role) returns boolean
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_may_act_as';

comment on function scylla._may_act_as is
    'whether the caller may have commands run with the rights of a role';

grant execute on function scylla._database_in, scylla._database_out, scylla._may_act_as to public;

alter table scylla.task
    drop constraint task_role,
    add constraint task_role check (command is null or scylla._may_act_as(role));
comment on constraint task_role on scylla.task is
    'a command runs as a role whose rights the writing role has';

alter table scylla.schedule
    drop constraint schedule_role,
    add constraint schedule_role check (command is null or scylla._may_act_as(owner));
comment on constraint schedule_role on scylla.schedule is
    'commands run as a role whose rights the writing role has';

alter table scylla.finished
    add constraint finished_role check (command is null or scylla._may_act_as(role));
comment on constraint finished_role on scylla.finished is
    'commands ran as a role whose rights the writing role has';

-- Rights: a function of the reader's sees no row that the view does not show.
alter view scylla.stats set (security_barrier);
alter view scylla.queues set (security_barrier);
alter view scylla.workers set (security_barrier);

-- Rights: what the creating role's default privileges gave to others is taken back. It is known by the
-- access that the extension was created with; what was granted since stays.
do $upgrade$
declare
    item record;
begin
    for item in
        select distinct case when c.relkind operator(pg_catalog.=) 'S' then 'sequence' else 'table' end as kind,
            c.oid::pg_catalog.regclass as object, r.oid::pg_catalog.regrole as grantee
        from pg_catalog.pg_init_privs i
        join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.objoid
        cross join lateral pg_catalog.aclexplode(i.initprivs) a
        join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.grantee
        where i.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            and c.relnamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
            and r.oid operator(pg_catalog.<>) c.relowner
    loop
        execute pg_catalog.format('revoke all on %s %s from %s', item.kind, item.object, item.grantee);
    end loop;
end
$upgrade$;
comment on schema scylla is 'tasks, queues and schedules, and the functions that work with them';

-- What was resubmitted shows it.

alter table scylla.finished add column resubmitted_as uuid;
comment on table scylla.finished is 'settled tasks, by the time they were settled';
comment on column scylla.finished.resubmitted_as is
    'the task that repeats this one, the latest of several; null: none does';

update scylla.finished f
set resubmitted_as = r.as_task
from (
    select distinct on (c.resubmitted_from) c.resubmitted_from as id, c.id as as_task
    from (
        select t.resubmitted_from, t.id, t.created from scylla.task t
        union all
        select o.resubmitted_from, o.id, o.created from scylla.finished o
    ) c
    where c.resubmitted_from is not null
    order by c.resubmitted_from, c.created desc
) r
where f.id operator(pg_catalog.=) r.id;

create or replace view scylla.failed with (security_barrier) as
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

comment on column scylla.failed.error is
    'the last thing that went wrong; that the tries are used up only where nothing else did';
comment on column scylla.failed.resubmitted_as is
    'the task that repeats it, the latest of several; null: none does';

-- The views of the schema cron can be written.

create function scylla._cron_write_job() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_write_job';

comment on function scylla._cron_write_job is 'does what a change of a row of cron.job means';

create function scylla._cron_delete_run() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_delete_run';

comment on function scylla._cron_delete_run is 'deletes the task of a row of cron.job_run_details';

create function scylla._cron_sees_jobs_of(role scylla.role) returns boolean
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_cron_sees_jobs_of';

comment on function scylla._cron_sees_jobs_of is 'whether the caller sees the jobs of a role in the views of the schema cron';

create function scylla._cron_runs()
returns table (
    id uuid,
    schedule bigint,
    role scylla.role,
    database text,
    command text,
    status text,
    owned_at timestamptz,
    updated timestamptz,
    errors jsonb,
    history jsonb,
    result jsonb,
    job_pid integer
)
language c volatile parallel unsafe rows 1000 as 'MODULE_PATHNAME', 'scylla_cron_runs';

comment on function scylla._cron_runs is 'the runs of the jobs that the caller sees, for cron.job_run_details';

grant execute on function scylla._cron_write_job, scylla._cron_delete_run, scylla._cron_sees_jobs_of,
    scylla._cron_runs to public;
-- The API of 0.2.

-- Grown functions are dropped and created, which would forget their access lists. These are kept
-- here, and restored below.
create temporary table grown as
select p.proname as name, p.proowner as owner, p.proacl as access, i.initprivs as first_access
from pg_catalog.pg_proc p
left join pg_catalog.pg_init_privs i
    on i.objoid operator(pg_catalog.=) p.oid
    and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
where p.pronamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
    and p.proname operator(pg_catalog.=) any ('{submit, submit_many, own_tasks, own_task, register_worker, schedule, alter_schedule, run_sql, schedule_sql}');

alter table scylla.task add column meta jsonb;
comment on column scylla.task.meta is 'what a client noted about the task; null: nothing';
alter table scylla.finished add column meta jsonb;
comment on column scylla.finished.meta is 'what a client noted about the task; null: nothing';
alter table scylla.schedule add column meta jsonb;
comment on column scylla.schedule.meta is 'what a client noted about the runs; null: nothing';

-- Workers that told something of themselves, or are asked to stop.
create table scylla.worker (
    name       text        not null collate "C",
    meta       jsonb       not null default '{}',
    draining   boolean     not null default false,
    since      timestamptz not null default pg_catalog.clock_timestamp(),
    constraint worker_pkey primary key (name)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

comment on table scylla.worker is
    'workers that told something of themselves or are asked to stop; a row goes after its worker';
comment on column scylla.worker.name is 'the worker''s name';
comment on column scylla.worker.meta is 'what it told of itself';
comment on column scylla.worker.draining is 'whether it is asked to stop, and owns nothing more';
comment on column scylla.worker.since is 'when it registered, or was asked to stop';
comment on constraint worker_pkey on scylla.worker is 'finds a worker by its name';
revoke all on table scylla.worker from public;

-- Keys that stay taken for a time after their submission, whether or not the tasks have settled.
create table scylla.kept_key (
    queue      text        not null collate "C",
    key        text        not null collate "C",
    task       uuid        not null,
    until      timestamptz not null,
    constraint kept_key_pkey primary key (queue, key)
);

create index kept_key_until on scylla.kept_key (until);

comment on table scylla.kept_key is
    'keys of tasks that were submitted with unique_for; a row goes when its time is over';
comment on column scylla.kept_key.queue is 'the queue';
comment on column scylla.kept_key.key is 'the key';
comment on column scylla.kept_key.task is 'the task that was submitted with it';
comment on column scylla.kept_key.until is 'until when no other task of the queue may have it';
comment on constraint kept_key_pkey on scylla.kept_key is 'a key is kept for one task';
comment on index scylla.kept_key_until is 'the keys whose time is over';

select pg_catalog.pg_extension_config_dump('scylla.kept_key', '');
revoke all on table scylla.kept_key from public;

drop function scylla.submit(text, jsonb, text, bigint, uuid, text, text, timestamptz, uuid[], text, integer, interval, interval, interval, boolean, text);
create function scylla.submit(
    queue text,
    spec jsonb default '{}',
    action text default '',
    priority bigint default 0,
    id uuid default null,
    key text default null,
    on_conflict text default 'error',
    run_at timestamptz default null,
    after uuid[] default null,
    on_failure text default 'abort',
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    group_key text default null,
    meta jsonb default null,
    unique_for interval default null
) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_0_2';
comment on function scylla.submit is 'submits one task; returns its id';

drop function scylla.submit_many(text, jsonb[], text, bigint, timestamptz, integer, interval, interval, interval, boolean, uuid[], text[], text[]);
create function scylla.submit_many(
    queue text,
    specs jsonb[],
    action text default '',
    priority bigint default 0,
    run_at timestamptz default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    ids uuid[] default null,
    keys text[] default null,
    group_keys text[] default null,
    meta jsonb default null
) returns uuid[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_many_0_2';
comment on function scylla.submit_many is
    'submits a task for each spec, all to one queue; returns their ids, in order';

drop function scylla.own_tasks(text, text, integer, text[], interval);
create function scylla.own_tasks(
    worker text,
    queue text,
    max_tasks integer default 1,
    actions text[] default null,
    timeout interval default null
) returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_tasks_0_2';
comment on function scylla.own_tasks is 'leases the best ready tasks of a queue to a worker';

drop function scylla.own_task(uuid, text, interval);
create function scylla.own_task(id uuid, worker text, timeout interval default null)
returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_task_0_2';
comment on function scylla.own_task is 'leases one ready task, by its id, to a worker';

drop function scylla.register_worker();
create function scylla.register_worker(meta jsonb default '{}') returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_register_worker_0_2';
comment on function scylla.register_worker is 'a worker name that was never handed out before';

drop function scylla.schedule(text, text, text, jsonb, text, bigint, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
create function scylla.schedule(
    name text,
    schedule text,
    queue text,
    spec jsonb default '{}',
    action text default '',
    priority bigint default 0,
    time_zone text default null,
    misfire text default 'once',
    overlap text default 'allow',
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null,
    meta jsonb default null
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_schedule_0_2';
comment on function scylla.schedule is 'registers a schedule, or replaces the one of that name; returns its number';

drop function scylla.alter_schedule(text, boolean, text, text, jsonb, text, bigint, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
create function scylla.alter_schedule(
    name text,
    active boolean default null,
    schedule text default null,
    queue text default null,
    spec jsonb default null,
    action text default null,
    priority bigint default null,
    time_zone text default null,
    misfire text default null,
    overlap text default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null,
    meta jsonb default null
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_alter_schedule_0_2';
comment on function scylla.alter_schedule is 'changes a schedule; null leaves a value as it is';

drop function scylla.run_sql(text, name, text, text, bigint, timestamptz, uuid[], text, integer, interval, interval, interval, boolean);
create function scylla.run_sql(
    command text,
    database name default null,
    key text default null,
    on_conflict text default 'error',
    priority bigint default 0,
    run_at timestamptz default null,
    after uuid[] default null,
    on_failure text default 'abort',
    max_tries integer default 1,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    group_key text default null,
    meta jsonb default null
) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_run_sql_0_2';
comment on function scylla.run_sql is
    'submits an SQL command that the server runs as the calling role; returns the task''s id';

drop function scylla.schedule_sql(text, text, text, name, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
create function scylla.schedule_sql(
    name text,
    schedule text,
    command text,
    database name default null,
    time_zone text default null,
    misfire text default 'once',
    overlap text default 'skip',
    max_tries integer default 1,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null,
    group_key text default null,
    meta jsonb default null
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_schedule_sql_0_2';
comment on function scylla.schedule_sql is
    'registers a schedule of an SQL command, or replaces the one of that name; returns its number';

-- The grants that the script makes count as the extension's own, which pg_dump leaves out: what a
-- function was created with is restored after them.
do $upgrade$
declare
    was record;
    now pg_catalog.oid;
    item record;
begin
    for was in select * from pg_temp.grown loop
        select p.oid into strict now
        from pg_catalog.pg_proc p
        where p.pronamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
            and p.proname operator(pg_catalog.=) was.name;
        execute pg_catalog.format('revoke all on function %s from public', now::pg_catalog.regprocedure);
        for item in
            select * from pg_catalog.aclexplode(
                coalesce(was.access, pg_catalog.acldefault('f', was.owner))) a
        loop
            execute pg_catalog.format('grant execute on function %s to %s%s',
                now::pg_catalog.regprocedure,
                case when item.grantee operator(pg_catalog.=) 0 then 'public'
                    else item.grantee::pg_catalog.regrole::text end,
                case when item.is_grantable then ' with grant option' end);
        end loop;
        update pg_catalog.pg_init_privs set initprivs = was.first_access
        where objoid operator(pg_catalog.=) now
            and classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass;
    end loop;
end $upgrade$;

drop table pg_temp.grown;

-- Views get columns at their end: what depends on them stays.
-- Only the schedules whose queues the caller may look at.
create or replace view scylla.schedules with (security_barrier) as
select s.name, s.schedule, s.queue, s.action, s.active, s.time_zone, s.misfire, s.overlap,
    s.next_run, s.last_run, s.fired,
    s.completed operator(pg_catalog.+) coalesce(c.completed, 0) as completed,
    s.aborted operator(pg_catalog.+) coalesce(c.aborted, 0) as aborted,
    s.skipped, s.id, pg_catalog.pg_get_userbyid(s.owner::pg_catalog.oid) as owner, s.spec, s.priority,
    s.max_tries, s.retry_interval, s.retry_jitter, s.timeout, s.starts_at, s.ends_at, s.database,
    -- It may contain a secret.
    case when pg_catalog.pg_has_role(s.owner::pg_catalog.oid, 'usage') then s.command end
        as command,
    s.meta
from scylla.schedule s
left join (
    select r.schedule, pg_catalog.sum(r.completed)::pg_catalog.int8 as completed,
        pg_catalog.sum(r.aborted)::pg_catalog.int8 as aborted
    from scylla.run_count r
    group by r.schedule
) c on c.schedule operator(pg_catalog.=) s.id
where scylla._may_look(s.queue);

-- Each part has one status, so that a query by status reads no other part, and only what the caller
-- may look at: a condition of the query cannot see the rest. The first and the last queue are there
-- for the indexes, which begin with the queue. Columns have the same type and collation in each part:
-- else PostgreSQL plans each part alone. The outer query is the barrier, which a union is not.
create or replace view scylla.tasks with (security_barrier) as
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

-- As above.
create or replace view scylla.workers with (security_barrier) as
select w.worker, w.queue, w.running, w.last_seen, w.next_deadline,
    coalesce(r.meta, '{}') as meta, coalesce(r.draining, false) as draining
from scylla._known_workers(pg_catalog.clock_timestamp()) w
left join scylla.worker r on r.name operator(pg_catalog.=) w.worker collate "C";

comment on column scylla.schedules.meta is 'what a client noted about the runs; null: nothing';
comment on column scylla.tasks.meta is 'what a client noted about the task; null: nothing';
comment on column scylla.workers.queue is 'the queue that it serves; null: it has not asked for tasks yet';
comment on column scylla.workers.meta is 'what it told of itself when it registered';
comment on column scylla.workers.draining is 'whether it is asked to stop, and owns nothing more';

create function scylla.own_any(
    worker text,
    queues text[],
    max_tasks integer default 1,
    actions text[] default null,
    timeout interval default null
) returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb, queue text
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_any';
comment on function scylla.own_any is
    'leases the best ready tasks of 1 to 16 queues, in the order given, to a worker';
grant execute on function scylla.own_any to public;

create function scylla.heartbeat(
    worker text, ids uuid[], tokens uuid[], timeout interval default null,
    progress double precision[] default null
) returns table (id uuid, state text, deadline timestamptz)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_heartbeat';
comment on function scylla.heartbeat is
    'extends many leases of a worker that lives; the state of each: held, cancelled, settled, lost or gone';
grant execute on function scylla.heartbeat to public;

create function scylla.return_many(
    ids uuid[], tokens uuid[], outcomes text[], results jsonb[] default null,
    errors jsonb[] default null, run_ats timestamptz[] default null
) returns text[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_many';
comment on function scylla.return_many is
    'ends many leases, each with an outcome of its own; the status of each, null where the token is not valid';
grant execute on function scylla.return_many to public;

create function scylla.about() returns jsonb
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_about';
comment on function scylla.about is 'what serves here: edition, version, protocol and features, for clients';
grant execute on function scylla.about to public;

create function scylla.drain_worker(worker text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_drain_worker';
comment on function scylla.drain_worker is
    'asks a worker to stop: it owns nothing more; false when there is no such worker';
grant execute on function scylla.drain_worker to public;

create procedure scylla.wait_for_event(
    worker text, queues text[], timeout interval default '30 s', actions text[] default null,
    inout event text default null, inout queue text default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_event';
comment on procedure scylla.wait_for_event is
    'waits for what a worker has to do: work, signal (a lease ended without it) or drain; null when the time is over';
grant execute on procedure scylla.wait_for_event to public;

-- A restored database is closed from its first transaction.

create function scylla._note_identity() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_note_identity';

comment on function scylla._note_identity is 'closes a database that was copied or restored, from the commit on';
grant execute on function scylla._note_identity to public;

create trigger note_identity after insert or update or delete on scylla.incarnation
for each statement execute function scylla._note_identity();

comment on trigger note_identity on scylla.incarnation is 'a restored row closes the database';
-- Operators and dashboards.

create function scylla.list_tasks(filter jsonb, after uuid default null, max_tasks integer default 100)
returns setof scylla.tasks
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_list_tasks';
comment on function scylla.list_tasks is
    'a page of the tasks that a filter takes, the newest first; after: the last id of the page before';
grant execute on function scylla.list_tasks to public;

create function scylla.cancel_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_matching';
comment on function scylla.cancel_matching is
    'cancels the unfinished tasks that a filter takes; returns how many';
grant execute on function scylla.cancel_matching to public;

create function scylla.resubmit_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resubmit_matching';
comment on function scylla.resubmit_matching is
    'resubmits the aborted and cancelled tasks that a filter takes, each once; returns how many';
grant execute on function scylla.resubmit_matching to public;

create function scylla.delete_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delete_matching';
comment on function scylla.delete_matching is
    'deletes the tasks that a filter takes, live and settled ones; returns how many';
grant execute on function scylla.delete_matching to public;

create function scylla.drop_queue(queue text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_drop_queue';
comment on function scylla.drop_queue is
    'drops the tasks, settings, grants and counts of a queue; false when there is no such queue';
grant execute on function scylla.drop_queue to public;

alter table scylla.queue_total
    add column used timestamptz not null default pg_catalog.now(),
    add column ready_to_owned_sum bigint not null default 0,
    add column owned_to_settled_sum bigint not null default 0;
comment on column scylla.queue_total.used is
    'when something happened last; later where it was looked whether the queue still has something';
comment on column scylla.queue_total.ready_to_owned_sum is
    'how long the tasks of ready_to_owned were ready together, in microseconds';
comment on column scylla.queue_total.owned_to_settled_sum is
    'how long the ownerships of owned_to_settled took together, in microseconds';

-- What was counted before counts with the middle of its bucket, so that sums fit the counts.
update scylla.queue_total t
set ready_to_owned_sum = (
        select coalesce(pg_catalog.sum(u.count operator(pg_catalog.*) 750 operator(pg_catalog.*)
            pg_catalog.power(2::pg_catalog.float8, u.n operator(pg_catalog.-) 1)), 0)::pg_catalog.int8
        from pg_catalog.unnest(t.ready_to_owned) with ordinality u (count, n)),
    owned_to_settled_sum = (
        select coalesce(pg_catalog.sum(u.count operator(pg_catalog.*) 750 operator(pg_catalog.*)
            pg_catalog.power(2::pg_catalog.float8, u.n operator(pg_catalog.-) 1)), 0)::pg_catalog.int8
        from pg_catalog.unnest(t.owned_to_settled) with ordinality u (count, n));

create function scylla._queue_numbers()
returns table (
    queue text, waiting bigint, ready bigint, running bigint, since timestamptz,
    events bigint[], ready_to_owned bigint[], owned_to_settled bigint[],
    ready_to_owned_sum bigint, owned_to_settled_sum bigint
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_queue_numbers';
comment on function scylla._queue_numbers is
    'the numbers of the queues that the caller may see; since is null where nothing has happened';
grant execute on function scylla._queue_numbers to public;

create or replace view scylla.stats with (security_barrier) as
select n.queue, n.events[1] as submitted, n.events[2] as owned, n.events[3] as completed,
    n.events[4] as aborted, n.events[5] as cancelled, n.events[6] as retried, n.events[7] as yielded,
    n.events[8] as expired, n.events[9] as fired, n.since, n.ready_to_owned, n.owned_to_settled,
    n.ready_to_owned_sum operator(pg_catalog./) 1000000::pg_catalog.float8 as ready_to_owned_sum,
    n.owned_to_settled_sum operator(pg_catalog./) 1000000::pg_catalog.float8 as owned_to_settled_sum
from scylla._queue_numbers() n
where n.since is not null;

comment on column scylla.stats.ready_to_owned_sum is
    'how long the tasks of ready_to_owned were ready together, in seconds';
comment on column scylla.stats.owned_to_settled_sum is
    'how long the ownerships of owned_to_settled took together, in seconds';

create or replace view scylla.queues with (security_barrier) as
select n.queue, n.waiting, n.ready, n.running, n.events[3] as completed, n.events[4] as aborted,
    n.events[5] as cancelled,
    -- Without a ready task the search would go through all that workers own.
    case when n.ready operator(pg_catalog.=) 0 then null
        else pg_catalog.clock_timestamp() operator(pg_catalog.-) scylla._oldest_ready(n.queue)
    end as oldest_ready,
    coalesce(q.paused, false) as paused, coalesce(q.critical, false) as critical,
    q.timeout, q.retention, q.max_running, q.max_per_second, q.aging,
    coalesce(q.keep_finished, true) as keep_finished, q.max_tries, q.retry_interval, q.retry_jitter,
    q.max_ready, q.max_running_per_group
from scylla._queue_numbers() n
left join scylla.queue q on q.queue operator(pg_catalog.=) n.queue collate "C";

drop function scylla._queue_stats();

create function scylla._health()
returns table (
    version text, protocol integer, open boolean, scheduler_pid integer, scheduler_since timestamptz,
    scheduler_lag interval, oldest_due interval, board_size integer, board_used integer, lanes integer,
    lanes_used integer, leases_restored integer, xmin_age bigint, xmin_holder text
)
language c volatile parallel unsafe rows 1 as 'MODULE_PATHNAME', 'scylla_health';
comment on function scylla._health is 'how this database and the board are, in one row';
grant execute on function scylla._health to public;

-- The function shows only what the caller may see.
create view scylla.health with (security_barrier) as
select h.version, h.protocol, h.open, h.scheduler_pid, h.scheduler_since, h.scheduler_lag, h.oldest_due,
    h.board_size, h.board_used, h.lanes, h.lanes_used, h.leases_restored, h.xmin_age, h.xmin_holder
from scylla._health() h;

comment on view scylla.health is 'one row for a health check';
comment on column scylla.health.version is 'the version of the extension';
comment on column scylla.health.protocol is 'the version of the calls, for clients';
comment on column scylla.health.open is
    'whether this database hands out tasks; null: the board is not built yet';
comment on column scylla.health.scheduler_pid is 'the scheduler''s process; null: none runs';
comment on column scylla.health.scheduler_since is 'since when it serves this database';
comment on column scylla.health.scheduler_lag is
    'how long it has been late to wake, or at its present round; null: none runs';
comment on column scylla.health.oldest_due is
    'how long the oldest task is due that has not fired; null: none is';
comment on column scylla.health.board_size is 'the tasks for which the board has room, of all databases';
comment on column scylla.health.board_used is 'the tasks that are on the board, of all databases';
comment on column scylla.health.lanes is 'the lanes for which the board has room, of all databases';
comment on column scylla.health.lanes_used is 'the lanes that are on the board, of all databases';
comment on column scylla.health.leases_restored is
    'how many leases were restored when the board was built last';
comment on column scylla.health.xmin_age is
    'how many transactions ago the oldest one began that keeps dead rows; null: none does, or you may not see it';
comment on column scylla.health.xmin_holder is 'what that is: a process, a replication slot or a prepared transaction';
revoke all on scylla.health from public;
grant select on scylla.health to public;

select scylla.refresh();
