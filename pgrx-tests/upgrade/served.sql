-- After an upgrade: all data of data.sql is served. :in_place is true where the database itself was
-- upgraded, and false where it was restored from a dump, which has no leases.
\set QUIET on
\set ON_ERROR_STOP on
create function pg_temp.expect(what text, got text, expected text) returns void language plpgsql as $$
begin
    if got is distinct from expected then
        raise exception '%: got %, expected %', what, got, expected;
    end if;
end $$;

select pg_temp.expect(queue, count(*) || status, expected)
from scylla.tasks join (values ('up_completed', '1completed'), ('up_aborted', '1aborted'),
    ('up_cancelled', '2cancelled')) as v (name, expected) on name = queue
group by queue, status, expected;
select pg_temp.expect('result', result ->> 'sent', 'true') from scylla.tasks where queue = 'up_completed';

\if :in_place
select pg_temp.expect('lease kept', scylla.extend(id, token)::text, 'true') from held;
\else
select scylla.open();
truncate held;
insert into held
select id, token from scylla.own_tasks('w', 'up_running', 2);
insert into held
select id, token from scylla.own_tasks('w', 'up_graph', 1, '{first}');
\endif
select pg_temp.expect('running', count(*)::text, '3')
from scylla.tasks where status = 'running' and queue in ('up_running', 'up_graph');
select pg_temp.expect('leases returned', string_agg(scylla.return_task(id, token), ' '),
    'completed completed completed')
from held;

select pg_temp.expect('ready, in order', string_agg(spec ->> 'n', ''), '54321')
from scylla.own_tasks('w', 'up_ready', 9);
select pg_temp.expect('key', (scylla.task_id('up_ready', 'k3') is not null)::text, 'true');
select pg_temp.expect('paused', count(*)::text, '0') from scylla.own_tasks('w', 'up_paused');
select scylla.resume('up_paused');
select pg_temp.expect('resumed', count(*)::text, '1') from scylla.own_tasks('w', 'up_paused');
select pg_temp.expect('limit kept', max_running::text, '1') from scylla.queue where queue = 'up_limited';
select pg_temp.expect('message', scylla.cancel_message('up_message', 'm1')::text, 'true');
select pg_temp.expect('waiting', status, 'waiting') from scylla.tasks where queue = 'up_waiting';
select pg_temp.expect('retried', ((tries || errors::text) ~ '^1.*later')::text, 'true')
from scylla.tasks where queue = 'up_retried';

-- the graph goes on to its end
select pg_temp.expect(action, scylla.return_task(id, token), 'completed')
from scylla.own_tasks('w', 'up_graph', 1, '{second}');
select pg_temp.expect(action, scylla.return_task(id, token), 'completed')
from scylla.own_tasks('w', 'up_graph', 1, '{join}');
select pg_temp.expect('last of the graph', count(*)::text, '1') from scylla.own_tasks('w', 'up_graph');

-- the scheduler fires what fell due
call scylla.wait_for_work('up_soon', timeout => '10 s', available => null);
select pg_temp.expect('fired', count(*)::text, '1') from scylla.own_tasks('w', 'up_soon');
call scylla.wait_for_work('up_often', timeout => '10 s', available => null);
select pg_temp.expect('schedule', (count(*) > 0)::text, 'true')
from scylla.own_tasks('w', 'up_often', 100);
select pg_temp.expect('schedules',
    string_agg(regexp_replace(name, '[0-9]', 'N') || coalesce('=' || command, ''), ' ' order by name),
    'cron:N=select 2 up-command=vacuum up-nightly up-often')
from scylla.schedules;

-- groups, and what the server runs
select pg_temp.expect('groups', string_agg(group_key, ' ' order by group_key), 'tenant 1 tenant 2')
from scylla.own_tasks('w', 'up_group', 9);
select pg_temp.expect('SQL task that ran', status || result::text, 'completed{"rows": 0, "command_tag": "CREATE TABLE"}')
from scylla.tasks where command ~ 'public.ran';
select pg_temp.expect('SQL task for later', status || ' ' || role || ' ' || command, 'waiting postgres select 1')
from scylla.tasks where id = scylla.task_id('sql', 'later');
do $$ begin
    for n in 1..100 loop
        exit when to_regclass('public.fell_due') is not null;
        perform pg_sleep(0.1);
        commit;
    end loop;
end $$;
select pg_temp.expect('SQL task that fell due', to_regclass('public.fell_due')::text, 'fell_due');
select pg_temp.expect('job', jobname || ' ' || schedule || ' ' || command, 'up-job 0 4 * * * select 2')
from cron.job where jobname = 'up-job';
select pg_temp.expect('job changed', cron.schedule('up-job', '0 5 * * *', 'select 3')::text, jobid::text)
from cron.job where jobname = 'up-job';
select pg_temp.expect('job unscheduled', cron.unschedule('up-job')::text, 'true');

-- what an administrator granted holds
set role upgrade_reader;
select pg_temp.expect('privilege', (scylla.submit('up_ready') is not null)::text, 'true');
select pg_temp.expect('grant', (count(*) > 0)::text, 'true') from scylla.finished;
reset role;
