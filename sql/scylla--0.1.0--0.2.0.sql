\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0.

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

grant execute on function scylla._cron_write_job, scylla._cron_delete_run to public;

select scylla.refresh();
