-- The schema cron with pg_cron's functions and views, of the shapes that pg_cron has since 1.5. It is no
-- part of the extension, so that a dump contains it. Its functions go with the extension.
create schema cron;

comment on schema cron is 'pg_cron''s functions and views, for schedules of scylla';

create function cron.schedule(schedule text, command text) returns bigint
language sql volatile parallel unsafe strict
as 'select scylla._cron_schedule('''', $1, $2)';

comment on function cron.schedule(text, text) is 'schedules a job';

create function cron.schedule(job_name text, schedule text, command text) returns bigint
language sql volatile parallel unsafe
as 'select scylla._cron_schedule($1, $2, $3)';

comment on function cron.schedule(text, text, text) is 'schedules a job with a name';

create function cron.schedule_in_database(
    job_name text,
    schedule text,
    command text,
    database text,
    username text default null,
    active boolean default true
) returns bigint
language sql volatile parallel unsafe
as 'select scylla._cron_schedule($1, $2, $3, $4, $5, $6)';

comment on function cron.schedule_in_database is 'schedules a job in a database';

create function cron.unschedule(job_id bigint) returns boolean
language sql volatile parallel unsafe strict
as 'select scylla._cron_unschedule($1, null)';

comment on function cron.unschedule(bigint) is 'removes a job';

create function cron.unschedule(job_name text) returns boolean
language sql volatile parallel unsafe strict
as 'select scylla._cron_unschedule(null, $1)';

comment on function cron.unschedule(text) is 'removes a job of the caller''s by its name';

create function cron.alter_job(
    job_id bigint,
    schedule text default null,
    command text default null,
    database text default null,
    username text default null,
    active boolean default null
) returns void
language sql volatile parallel unsafe
as 'select scylla._cron_alter($1, $2, $3, $4, $5, $6)';

comment on function cron.alter_job is 'changes a job; null leaves a value as it is';

-- LOCK TABLE on a view locks the tables that it reads, with the rights of the view's owner. So a view that
-- others may write reads no table that is not for them: no catalog, and not the tasks.
create view cron.job with (security_barrier) as
select s.id as jobid, s.schedule, s.command, 'localhost'::pg_catalog.text as nodename,
    pg_catalog.current_setting('port')::pg_catalog.int4 as nodeport,
    coalesce(s.database, pg_catalog.current_database()::pg_catalog.text) as database,
    pg_catalog.pg_get_userbyid(s.owner::pg_catalog.oid)::pg_catalog.text as username,
    s.active, s.job as jobname
from scylla.schedule s
where s.command is not null and scylla._cron_sees_jobs_of(s.owner);

comment on view cron.job is 'the caller''s jobs; all for a superuser';

create view cron.job_run_details with (security_barrier) as
select t.schedule as jobid,
    -- Of the task's id: the time, and some of the random bits.
    ('x0' operator(pg_catalog.||) pg_catalog.substr(t.digits, 1, 12)
        operator(pg_catalog.||) pg_catalog.substr(t.digits, 14, 3)
    )::pg_catalog.bit(64)::pg_catalog.int8 as runid,
    t.job_pid,
    coalesce(t.database, pg_catalog.current_database()::pg_catalog.text) as database,
    pg_catalog.pg_get_userbyid(t.role::pg_catalog.oid)::pg_catalog.text as username,
    t.command,
    case
        when t.status operator(pg_catalog.=) 'completed' then 'succeeded'
        when t.status operator(pg_catalog.=) 'running' then 'running'
        when t.status operator(pg_catalog.=) 'ready' then 'starting'
        else 'failed'
    end as status,
    case
        when t.status operator(pg_catalog.=) 'completed' then
            case when t.result operator(pg_catalog.->>) 'command_tag' operator(pg_catalog.~) '^SELECT '
                then (t.result operator(pg_catalog.->>) 'rows') operator(pg_catalog.||)
                    case when (t.result operator(pg_catalog.->>) 'rows') operator(pg_catalog.=) '1'
                        then ' row' else ' rows' end
                else t.result operator(pg_catalog.->>) 'command_tag' end
        when t.status operator(pg_catalog.=) 'cancelled' then 'job canceled'
        when t.status operator(pg_catalog.=) 'aborted' then
            'ERROR:  ' operator(pg_catalog.||)
            (t.errors operator(pg_catalog.->) 0 operator(pg_catalog.->>) 'description')
            operator(pg_catalog.||) pg_catalog.chr(10)
    end as return_message,
    coalesce(t.owned_at,
        (t.history operator(pg_catalog.->) 0 operator(pg_catalog.->>) 'time')::pg_catalog.timestamptz
    ) as start_time,
    case when t.status operator(pg_catalog.<>) all ('{ready,running}') then t.updated end as end_time
from (
    select pg_catalog.replace(r.id::pg_catalog.text, '-', '') as digits, r.*
    from scylla._cron_runs() r
) t;

comment on view cron.job_run_details is 'the runs of the caller''s jobs; all for a superuser';

-- As the tables of pg_cron, which can be written.
alter view cron.job alter column nodename set default 'localhost';
alter view cron.job alter column nodeport set default pg_catalog.current_setting('port')::pg_catalog.int4;
alter view cron.job alter column database set default pg_catalog.current_database();
alter view cron.job alter column username set default current_user;
alter view cron.job alter column active set default true;

create trigger write_job instead of insert or update or delete on cron.job
for each row execute function scylla._cron_write_job();

comment on trigger write_job on cron.job is 'does what pg_cron does with its table';

create trigger delete_run instead of delete on cron.job_run_details
for each row execute function scylla._cron_delete_run();

comment on trigger delete_run on cron.job_run_details is 'deletes the task of a run that has ended';

-- Default privileges are none here. As with pg_cron, the administrator grants the use of the schema,
-- and these two functions.
do $access$
declare
    item record;
begin
    for item in
        select distinct pg_catalog.format('%s cron.%I',
                case when c.relkind operator(pg_catalog.=) 'S' then 'sequence' else 'table' end, c.relname) as object,
            a.grantee::pg_catalog.regrole as grantee
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.relnamespace operator(pg_catalog.=) 'cron'::pg_catalog.regnamespace
            and c.relkind operator(pg_catalog.=) any ('{r,p,v,S}')
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) c.relowner
        union
        select pg_catalog.format('routine %s', p.oid::pg_catalog.regprocedure),
            a.grantee::pg_catalog.regrole
        from pg_catalog.pg_proc p
        cross join lateral pg_catalog.aclexplode(p.proacl) a
        where p.pronamespace operator(pg_catalog.=) 'cron'::pg_catalog.regnamespace
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) p.proowner
        union
        select 'schema cron', a.grantee::pg_catalog.regrole
        from pg_catalog.pg_namespace n
        cross join lateral pg_catalog.aclexplode(n.nspacl) a
        where n.nspname operator(pg_catalog.=) 'cron'
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) n.nspowner
    loop
        execute pg_catalog.format('revoke all on %s from %s', item.object, item.grantee);
    end loop;
end
$access$;

revoke all on schema cron from public;
revoke all on all tables in schema cron from public;
grant execute on all functions in schema cron to public;
revoke all on function cron.schedule_in_database, cron.alter_job from public;
grant select on cron.job, cron.job_run_details to public;
grant delete on cron.job_run_details to public;

alter function cron.schedule(text, text) depends on extension scylla;
alter function cron.schedule(text, text, text) depends on extension scylla;
alter function cron.schedule_in_database depends on extension scylla;
alter function cron.unschedule(bigint) depends on extension scylla;
alter function cron.unschedule(text) depends on extension scylla;
alter function cron.alter_job depends on extension scylla;
