\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0. What a line with \schema names comes from sql/schema with its comments, as
-- `scripts/release upgrade` has it.

-- Searching the table for what the board has no room for.

\schema function scylla._may_own
\schema function scylla._group_may_run
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

\schema function scylla._database_in
\schema function scylla._database_out

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
\schema function scylla._may_act_as
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

\schema view scylla.failed

-- The views of the schema cron can be written.

\schema function scylla._cron_write_job
\schema function scylla._cron_delete_run
\schema function scylla._cron_sees_jobs_of
\schema function scylla._cron_runs
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
\schema function scylla.submit

drop function scylla.submit_many(text, jsonb[], text, bigint, timestamptz, integer, interval, interval, interval, boolean, uuid[], text[], text[]);
\schema function scylla.submit_many

drop function scylla.own_tasks(text, text, integer, text[], interval);
\schema function scylla.own_tasks

drop function scylla.own_task(uuid, text, interval);
\schema function scylla.own_task

drop function scylla.register_worker();
\schema function scylla.register_worker

drop function scylla.schedule(text, text, text, jsonb, text, bigint, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
\schema function scylla.schedule

drop function scylla.alter_schedule(text, boolean, text, text, jsonb, text, bigint, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
\schema function scylla.alter_schedule

drop function scylla.run_sql(text, name, text, text, bigint, timestamptz, uuid[], text, integer, interval, interval, interval, boolean);
\schema function scylla.run_sql

drop function scylla.schedule_sql(text, text, text, name, text, text, text, integer, interval, interval, interval, timestamptz, timestamptz);
\schema function scylla.schedule_sql

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
\schema view scylla.schedules
\schema view scylla.tasks
\schema view scylla.workers

\schema function scylla.own_any
\schema function scylla.heartbeat
\schema function scylla.return_many
\schema function scylla.about
\schema function scylla.drain_worker
grant execute on function scylla.own_any, scylla.heartbeat, scylla.return_many, scylla.about,
    scylla.drain_worker to public;

\schema procedure scylla.wait_for_event
grant execute on procedure scylla.wait_for_event to public;

-- A restored database is closed from its first transaction.

\schema function scylla._note_identity
grant execute on function scylla._note_identity to public;

create trigger note_identity after insert or update or delete on scylla.incarnation
for each statement execute function scylla._note_identity();

comment on trigger note_identity on scylla.incarnation is 'a restored row closes the database';

-- Operators and dashboards.

\schema function scylla.list_tasks
\schema function scylla.cancel_matching
\schema function scylla.resubmit_matching
\schema function scylla.delete_matching
\schema function scylla.drop_queue
grant execute on function scylla.list_tasks, scylla.cancel_matching, scylla.resubmit_matching,
    scylla.delete_matching, scylla.drop_queue to public;

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

\schema function scylla._queue_numbers
grant execute on function scylla._queue_numbers to public;

\schema view scylla.stats
\schema view scylla.queues

drop function scylla._queue_stats();

\schema function scylla._health
grant execute on function scylla._health to public;

\schema view scylla.health
revoke all on scylla.health from public;
grant select on scylla.health to public;

-- The schema pgmq.

create table scylla.message_queue (
    queue      text        not null collate "C",
    name       text        not null collate "C",
    created    timestamptz not null default pg_catalog.clock_timestamp(),
    partitioned boolean    not null,
    unlogged   boolean     not null,
    notify_interval integer,
    constraint message_queue_pkey primary key (queue)
);

comment on table scylla.message_queue is 'the queues of the schema pgmq';
comment on column scylla.message_queue.queue is 'the queue';
comment on column scylla.message_queue.name is 'its name as it was created, in any case';
comment on column scylla.message_queue.created is 'when it was created';
comment on column scylla.message_queue.partitioned is
    'whether pgmq would keep it in partitions; here it makes no difference';
comment on column scylla.message_queue.unlogged is
    'whether pgmq would keep it in an unlogged table; here it makes no difference';
comment on column scylla.message_queue.notify_interval is
    'the shortest time between two notifications of a session, in milliseconds; null: none is sent';
comment on constraint message_queue_pkey on scylla.message_queue is 'finds a queue by its name';

-- Which routing keys send to which queue.
create table scylla.message_topic (
    pattern    text        not null collate "C",
    queue      text        not null collate "C",
    bound      timestamptz not null default pg_catalog.clock_timestamp(),
    constraint message_topic_pkey primary key (queue, pattern)
);

comment on table scylla.message_topic is
    'the patterns of routing keys whose messages queues of the schema pgmq get';
comment on column scylla.message_topic.pattern is
    'the pattern: * for one part of a key, # for any number';
comment on column scylla.message_topic.queue is 'the queue';
comment on column scylla.message_topic.bound is 'when the pattern was bound';
comment on constraint message_topic_pkey on scylla.message_topic is
    'a pattern is bound to a queue once';

select pg_catalog.pg_extension_config_dump('scylla.message_queue', '');
select pg_catalog.pg_extension_config_dump('scylla.message_topic', '');
revoke all on table scylla.message_queue, scylla.message_topic from public;

\schema function scylla.enable_pgmq_api
\schema function scylla.disable_pgmq_api
\schema function scylla._pgmq_create
\schema function scylla._pgmq_drop
\schema function scylla._pgmq_purge
\schema function scylla._pgmq_send
\schema function scylla._pgmq_send_batch
\schema function scylla._pgmq_read
\schema function scylla._pgmq_pop
\schema function scylla._pgmq_set_vt
\schema function scylla._pgmq_end
\schema function scylla._pgmq_end_batch
\schema function scylla._pgmq_messages
\schema function scylla._pgmq_queues
\schema function scylla._pgmq_metrics
\schema function scylla._pgmq_validate
\schema function scylla._pgmq_notify
\schema function scylla._pgmq_bind
\schema function scylla._pgmq_unbind
\schema function scylla._pgmq_topics
\schema function scylla._pgmq_validate_topic
\schema function scylla._pgmq_send_topic
\schema function scylla.import_pgmq_queue
grant execute on function
    scylla.enable_pgmq_api,
    scylla.disable_pgmq_api,
    scylla._pgmq_create,
    scylla._pgmq_drop,
    scylla._pgmq_purge,
    scylla._pgmq_send,
    scylla._pgmq_send_batch,
    scylla._pgmq_read,
    scylla._pgmq_pop,
    scylla._pgmq_set_vt,
    scylla._pgmq_end,
    scylla._pgmq_end_batch,
    scylla._pgmq_messages,
    scylla._pgmq_queues,
    scylla._pgmq_metrics,
    scylla._pgmq_validate,
    scylla._pgmq_notify,
    scylla._pgmq_bind,
    scylla._pgmq_unbind,
    scylla._pgmq_topics,
    scylla._pgmq_validate_topic,
    scylla._pgmq_send_topic,
    scylla.import_pgmq_queue to public;

-- Rights: what the creating role's default privileges gave to others is taken back, from what there was and
-- from what this script has created. It is known by the access that an object was created with; what was
-- granted since stays, and is no part of that.
do $upgrade$
declare
    item record;
    role pg_catalog.regrole;
begin
    for item in
        select i.classoid, i.objoid, i.initprivs, coalesce(c.relowner, p.proowner, n.nspowner) as owner,
            case
                when c.relkind operator(pg_catalog.=) 'S' then 'sequence '
                when c.oid is not null then 'table '
                when p.oid is not null then 'routine '
                else 'schema '
            end as kind,
            coalesce(c.oid::pg_catalog.regclass::text, p.oid::pg_catalog.regprocedure::text,
                pg_catalog.quote_ident(n.nspname)) as name
        from pg_catalog.pg_init_privs i
        left join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.objoid
            and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        left join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) i.objoid
            and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
        left join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) i.objoid
            and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
        where i.objsubid operator(pg_catalog.=) 0
            and coalesce(c.relnamespace, p.pronamespace, n.oid) operator(pg_catalog.=)
                'scylla'::pg_catalog.regnamespace
    loop
        for role in
            select distinct r.oid::pg_catalog.regrole
            from pg_catalog.aclexplode(item.initprivs) a
            join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.grantee
            where r.oid operator(pg_catalog.<>) item.owner
        loop
            execute pg_catalog.format('revoke all on %s%s from %s cascade', item.kind, item.name, role);
            item.initprivs := array(
                select it
                from pg_catalog.unnest(item.initprivs) it
                where not exists (
                    select from pg_catalog.aclexplode(array[it]) a
                    where a.grantee operator(pg_catalog.=) role::pg_catalog.oid));
            -- A revoke in a script makes all access that there is the extension's own.
            update pg_catalog.pg_init_privs i set initprivs = item.initprivs
            where i.objoid operator(pg_catalog.=) item.objoid
                and i.classoid operator(pg_catalog.=) item.classoid
                and i.objsubid operator(pg_catalog.=) 0;
        end loop;
    end loop;
end
$upgrade$;

select scylla.refresh();
