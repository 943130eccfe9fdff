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
