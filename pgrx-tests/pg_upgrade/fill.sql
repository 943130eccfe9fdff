-- Thousands of tasks in every state, before the upgrade. In the queues kept_* nothing changes with time,
-- so that the views show the same of them before and after. To be run just before the server stops.
\set QUIET on
\set ON_ERROR_STOP on
create extension amcheck;
create extension scylla;
create table public.held (id uuid, token uuid, queue text);
create table public.tick (at timestamptz default clock_timestamp());
-- Not compressible, so it is stored out of line.
create function public.long_text() returns text language sql volatile as
    'select string_agg(md5(random()::text), '''') from generate_series(1, 4000)';

select scylla.configure_queue('kept_group', max_running_per_group => 1, aging => '1 day'),
    scylla.configure_queue('kept_settled', retention => '30 d', timeout => '1 min', max_tries => 3),
    scylla.configure_queue('kept_limited', max_running => 7, max_per_second => 2.5, critical => true),
    scylla.grant('kept_ready', 'upgrade_reader', '{submit,work}'),
    scylla.grant('*', 'upgrade_reader', '{look}');

select scylla.submit('kept_ready', jsonb_build_object('n', n), priority => n % 5, key => 'k' || n,
    action => 'a' || n % 3, max_tries => 9, retry_interval => '1 s', timeout => '2 h')
from generate_series(1, 2000) n;
select scylla.submit('kept_group', group_key => 'g' || n % 50) from generate_series(1, 1000) n;
select scylla.submit('kept_toast', jsonb_build_object('text', public.long_text())) from generate_series(1, 50);
select scylla.submit('kept_paused') from generate_series(1, 10);
select scylla.pause('kept_paused');
select scylla.submit('kept_waiting', run_at => '2100-01-01') from generate_series(1, 500);
select scylla.delay('m' || n, '2100-01-01', 'kept_message', 'value', 'key', '{"h": 1}') from generate_series(1, 100) n;

-- settled ones of each kind, some with long results and errors
select scylla.submit('kept_settled', post_result => true) from generate_series(1, 1050);
select count(scylla.return_task(id, token, result => jsonb_build_object('text', public.long_text())))
from scylla.own_tasks('w', 'kept_settled', 50);
select count(scylla.return_task(id, token, result => '{"sent": true}'))
from scylla.own_tasks('w', 'kept_settled', 800);
select count(scylla.return_task(id, token, 'aborted', error => jsonb_build_object('code', public.long_text())))
from scylla.own_tasks('w', 'kept_settled', 100);
select count(scylla.return_task(id, token, 'retry', error => '{"code": "later"}', run_at => '2100-01-01'))
from scylla.own_tasks('w', 'kept_settled', 50);
select scylla.cancel(id) from scylla.task where queue = 'kept_settled' and ready;

-- graphs: first, second in spite of a failure, third; of some the first has settled
do $$ declare first uuid; second uuid; begin
    for n in 1..500 loop
        first := scylla.submit('kept_graph', action => 'first', key => 'first ' || n);
        second := scylla.submit('kept_graph', action => 'second', after => array[first], on_failure => 'run');
        perform scylla.submit('kept_graph', action => 'third', after => array[first, second]);
    end loop;
end $$;
select count(scylla.return_task(id, token)) from scylla.own_tasks('w', 'kept_graph', 100, '{first}');
select count(scylla.return_task(id, token, 'aborted', error => '{"code": "broken"}'))
from scylla.own_tasks('w', 'kept_graph', 50, '{first}');

-- What falls due during the upgrade.
select scylla.schedule('late ' || misfire || n, 'every 1 second', 'late_' || misfire, misfire => misfire)
from generate_series(1, 5) n, unnest('{all,once,skip}'::text[]) misfire;
select scylla.schedule('nightly', '0 3 * * *', 'kept_nightly', time_zone => 'Europe/Berlin',
        max_tries => 2, retry_interval => '1 s'),
    scylla.schedule_sql('tick', 'every 1 second', 'insert into public.tick default values');
select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
    'queue', 'late_delayed', 'run_at', clock_timestamp() + interval '1 ms' * n))
    from generate_series(30000, 40000, 5) n));

-- Leases that are saved before the stop: one hour, and so short that their deadlines pass meanwhile.
select count(scylla.submit('kept_running')) + count(scylla.submit('late_lease')) + count(scylla.submit('late_young'))
from generate_series(1, 200);
insert into held select id, token, 'kept_running' from scylla.own_tasks('w 1', 'kept_running', 200, timeout => '1 hour');
select count(scylla.extend(id, token, '1 hour', 0.5)) from held;
insert into held select id, token, 'late_lease' from scylla.own_tasks('w 2', 'late_lease', 200, timeout => '20 s');
do $$ begin
    for n in 1..100 loop
        exit when (select count(*) from scylla.lease) = 400;
        commit;
        perform pg_sleep(0.1);
    end loop;
end $$;

-- Leases that are not: they are forgotten.
alter system set scylla.persist_leases_after = '1 h';
select pg_reload_conf();
select pg_sleep(2);
insert into held select id, token, 'late_young' from scylla.own_tasks('w 3', 'late_young', 200, timeout => '1 hour');

-- The server counts on the side, and the first schedules have fired.
do $$ begin
    for n in 1..300 loop
        exit when not exists (select from scylla.queues where ready is null)
            and (select count(*) from public.tick) > 1;
        commit;
        perform pg_sleep(0.1);
    end loop;
end $$;
select scylla.register_worker() as last_worker;
