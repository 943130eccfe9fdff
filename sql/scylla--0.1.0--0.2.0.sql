\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0.

-- SQL tasks: the processes are shared by roles.
create index task_command on scylla.task
    ((role::pg_catalog.oid), (operator(pg_catalog.-) priority), created, id)
where ready and command is not null;
comment on index scylla.task_command is 'the ready SQL commands of each role, the best first';

alter table scylla.schedule add column group_key text collate "C";
comment on column scylla.schedule.group_key is
    'the group of the runs of an SQL command; null: that of their role';

create temporary table grown_sql as
select p.proname as name, p.proowner as owner, p.proacl as access, i.initprivs as first_access
from pg_catalog.pg_proc p
left join pg_catalog.pg_init_privs i
    on i.objoid operator(pg_catalog.=) p.oid
    and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
where p.pronamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
    and p.proname operator(pg_catalog.=) any ('{run_sql, schedule_sql}');

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
    group_key text default null
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
    group_key text default null
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
    for was in select * from pg_temp.grown_sql loop
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

drop table pg_temp.grown_sql;

-- The keys of the runs of SQL commands have a space of their own.
drop index scylla.task_key;
create unique index task_key on scylla.task
    (key, queue, (schedule is not null and command is not null))
where key is not null;
comment on index scylla.task_key is
    'one live task a queue and key, apart from the runs of SQL commands';

select scylla.refresh();
