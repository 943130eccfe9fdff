-- Data of every kind, written by the version that runs. served.sql finds it after the upgrade.
\set QUIET on
\set ON_ERROR_STOP on
create extension scylla;
\ir grants.sql
select scylla.grant('up_ready', 'upgrade_reader', '{submit,work,look}');
select scylla.configure_queue('up_limited', max_running => 1, timeout => '1 minute');

-- tokens, for the leases that are alive during the upgrade
create table public.held (id uuid, token uuid);

-- one of each status, and what belongs to it
select scylla.submit('up_ready', jsonb_build_object('n', n), priority => n, key => 'k' || n)
from generate_series(1, 5) n;
select scylla.submit('up_paused');
select scylla.pause('up_paused');
select scylla.submit('up_waiting', run_at => '2100-01-01');
select scylla.submit('up_soon', run_at => now() + interval '2 s');
select scylla.delay('m1', '2100-01-01', 'up_message', 'value', 'message key', '{"h": 1}');
select scylla.submit('up_running') from generate_series(1, 2);
select scylla.submit('up_completed', post_result => true), scylla.submit('up_aborted'),
    scylla.submit('up_retried', retry_interval => interval '1 day');
insert into held
select id, token from scylla.own_tasks('w', 'up_running', 2, timeout => '1 hour');
select scylla.return_task(id, token, result => '{"sent": true}')
from scylla.own_tasks('w', 'up_completed');
select scylla.return_task(id, token, 'aborted', error => '{"code": "broken"}')
from scylla.own_tasks('w', 'up_aborted');
select scylla.return_task(id, token, 'retry', error => '{"code": "later"}')
from scylla.own_tasks('w', 'up_retried');
select scylla.cancel(scylla.submit('up_cancelled')) from generate_series(1, 2);

-- a graph: two before one, and one more after that; its first task is running
select scylla.submit('up_graph', action => 'first') as first \gset
select scylla.submit('up_graph', action => 'second') as second \gset
select scylla.submit('up_graph', action => 'join', after => array[:'first', :'second']::uuid[]) as join \gset
select scylla.submit('up_graph', action => 'last', after => array[:'join']::uuid[], on_failure => 'run');
insert into held
select id, token from scylla.own_task(:'first', 'w', timeout => '1 hour');

select scylla.schedule('up-nightly', '0 3 * * *', 'up_nightly', time_zone => 'Europe/Berlin');
select scylla.schedule('up-often', 'every 1 second', 'up_often', starts_at => now() + interval '2 s');
select scylla.register_worker();

-- groups
select scylla.submit('up_group', group_key => 'tenant ' || n) from generate_series(1, 2) n;

-- SQL tasks: one that has run, one that falls due, one for later; a schedule, and a job of the schema cron
select scylla.run_sql('create table public.ran ()', post_result => true) as ran \gset
call scylla.wait_for_task(:'ran', '20 s', null, null);
select scylla.run_sql('create table public.fell_due () -- up_soon', run_at => now() + interval '2 s');
select scylla.run_sql('select 1', key => 'later', run_at => '2100-01-01');
select scylla.schedule_sql('up-command', '0 3 * * *', 'vacuum', max_tries => 3, timeout => '1 hour');
select scylla.enable_cron_api();
select cron.schedule('up-job', '0 4 * * *', 'select 2');
