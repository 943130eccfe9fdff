-- Waiting ends when a task is ready, on any shard.
\set VERBOSITY terse
call scylla.wait_for_work('waits', '100 ms');
select count(scylla.submit('waits')) from generate_series(1, 1);
call scylla.wait_for_work('waits', '5 s');
select router.spread_queue('waits_wide');
call scylla.wait_for_any('{waits_wide,waits0}', '100 ms');
-- Another session submits to one shard after another; this one wakes within 50 ms.
create temp table woken (after interval);
create extension if not exists dblink;
\set wait 'call scylla.wait_for_any(''{waits_wide}'', ''5 s'');'
select dblink_connect('other', format('host=%s port=%s dbname=postgres', split_part(current_setting('data_directory'), ' ', 1), current_setting('port'))) is not null as other;
create function pg_temp.submit_later(n integer) returns void language plpgsql as $$
begin
    perform dblink_send_query('other', format('select pg_sleep(0.3); select id, clock_timestamp() as at from scylla.submit(''waits_wide'', group_key => ''g%s'') id', n));
end $$;
create function pg_temp.woken() returns interval language plpgsql as $$
declare at timestamptz := clock_timestamp(); submitted timestamptz;
begin
    perform * from dblink_get_result('other') as r (nothing text);
    select r.at into submitted from dblink_get_result('other') as r (id uuid, at timestamptz);
    perform * from dblink_get_result('other') as r (nothing text);
    perform scylla.return_task(o.id, o.token) from scylla.own_tasks('w', 'waits_wide', 10) o;
    return at - submitted;
end $$;
select pg_temp.submit_later(1);
:wait
insert into woken select pg_temp.woken();
select pg_temp.submit_later(2);
:wait
insert into woken select pg_temp.woken();
select pg_temp.submit_later(3);
:wait
insert into woken select pg_temp.woken();
select pg_temp.submit_later(4);
:wait
insert into woken select pg_temp.woken();
select count(*), percentile_cont(0.5) within group (order by after) < '50 ms' as promptly from woken;
-- Results, wherever the task is.
select id, token from (select scylla.submit('waits_results', post_result => true)) s cross join lateral scylla.own_tasks('w', 'waits_results') \gset
call scylla.wait_for_task(:'id', '100 ms');
select scylla.return_task(:'id', :'token', result => '{"n": 1}');
call scylla.wait_for_task(:'id', '5 s');
-- A worker hears that it is to stop.
select count(*) from scylla.own_tasks('stopped', 'waits_results');
select scylla.drain_worker('stopped');
call scylla.wait_for_event('stopped', '{waits_results}', '5 s');
-- Errors.
call scylla.wait_for_any('{}', '1 s');
\set VERBOSITY sqlstate
call scylla.wait_for_task(scylla.submit('waits'), '1 s');
\set VERBOSITY terse
call scylla.wait_for_task('00000000-0000-4000-8000-000000000001', '1 s');
begin;
call scylla.wait_for_work('waits', '1 s');
rollback;
