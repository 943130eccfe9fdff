-- SQL commands that the server runs itself, as tasks of the queue sql.

-- needs submit on the queue sql; writes
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

-- needs submit on the queue sql; writes
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

-- needs ownership; writes
create function scylla.enable_cron_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_enable_cron_api';

comment on function scylla.enable_cron_api is
    'creates the schema cron with the functions and views of pg_cron';

-- needs ownership; writes
create function scylla.disable_cron_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_disable_cron_api';

comment on function scylla.disable_cron_api is 'drops the schema cron; its jobs stay as schedules';

-- needs ownership; writes
create function scylla.import_cron_jobs() returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_import_cron_jobs';

comment on function scylla.import_cron_jobs is
    'moves the jobs of pg_cron to schedules; returns how many';

-- needs submit on the queue sql; writes as cron.schedule()
create function scylla._cron_schedule(
    job_name text,
    schedule text,
    command text,
    database text default null,
    username text default null,
    active boolean default true
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_schedule';

comment on function scylla._cron_schedule is 'schedules a job for cron.schedule()';

-- needs submit on the queue sql; writes as cron.unschedule()
create function scylla._cron_unschedule(job_id bigint, job_name text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_unschedule';

comment on function scylla._cron_unschedule is 'removes a job for cron.unschedule()';

-- needs submit on the queue sql; writes as cron.alter_job()
create function scylla._cron_alter(
    job_id bigint,
    schedule text,
    command text,
    database text,
    username text,
    active boolean
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_alter';

comment on function scylla._cron_alter is 'changes a job for cron.alter_job()';

-- needs nothing
create function scylla._cron_sees_jobs_of(role scylla.role) returns boolean
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_cron_sees_jobs_of';

comment on function scylla._cron_sees_jobs_of is 'whether the caller sees the jobs of a role in the views of the schema cron';

-- needs nothing
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

-- needs nothing; writes as a change of the schema cron
create function scylla._cron_write_job() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_write_job';

comment on function scylla._cron_write_job is 'does what a change of a row of cron.job means';

-- needs nothing; writes as a change of the schema cron
create function scylla._cron_delete_run() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_delete_run';

comment on function scylla._cron_delete_run is 'deletes the task of a row of cron.job_run_details';
