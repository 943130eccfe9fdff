-- Workers: what they tell of themselves, and asking one to stop.
select scylla.register_worker('{"host": "a", "version": "1.2"}') as w \gset
select queue, running, last_seen is not null as seen, next_deadline, meta, draining from scylla.workers where worker = :'w';
select scylla.register_worker() as plain \gset
select queue, running, meta, draining from scylla.workers where worker = :'plain';
select count(scylla.submit('workers')) from generate_series(1, 3);
select count(*) from scylla.own_tasks(:'w', 'workers');
select queue, running, meta, draining from scylla.workers where worker = :'w';
-- A registration that is rolled back leaves no meta.
begin;
select scylla.register_worker('{"a": 1}') as undone \gset
rollback;
select meta from scylla.workers where worker = :'undone';

-- A worker that drains keeps its leases, and owns nothing more.
begin;
select scylla.drain_worker(:'w');
rollback;
select count(*) from scylla.own_tasks(:'w', 'workers');
select scylla.drain_worker(:'w');
select queue, running, draining from scylla.workers where worker = :'w';
select count(*) from scylla.own_tasks(:'w', 'workers');
select count(*) from scylla.own_any(:'w', '{workers}');
select id from scylla.tasks where queue = 'workers' and status = 'ready' \gset
\set VERBOSITY sqlstate
select * from scylla.own_task(:'id', :'w');
\set VERBOSITY default
select h.state from scylla.tasks t, scylla.heartbeat(:'w', array[t.id], array[gen_random_uuid()]) h where t.owner = :'w' and t.status = 'running' limit 1;
call scylla.wait_for_event(:'w', '{workers}', '0');
-- Another one gets the task.
call scylla.wait_for_event('another', '{workers}', '0');
select count(*) from scylla.own_tasks('another', 'workers');
-- Asked twice; and one that never registered.
select scylla.drain_worker(:'w'), scylla.drain_worker('another'), scylla.drain_worker('missing');
select worker, draining from scylla.workers where worker in ('another', 'missing');

-- A lease that ends without its worker: the worker hears of it once.
select count(scylla.submit('workers.event')) from generate_series(1, 4);
call scylla.wait_for_event('hears', '{workers.none,workers.event}', '0');
create temp table held as select * from scylla.own_tasks('hears', 'workers.event', 4, timeout => '1 hour');
call scylla.wait_for_event('hears', '{workers.event}', '0');
select scylla.cancel(id) from (select * from held order by id limit 1) h;
call scylla.wait_for_event('hears', '{workers.event}', '0');
call scylla.wait_for_event('hears', '{workers.event}', '0');
select scylla.delete_tasks(array[id]) from (select * from held order by id offset 1 limit 1) h;
call scylla.wait_for_event('hears', '{workers.event}', '0');
select scylla.release_worker('hears');
call scylla.wait_for_event('hears', '{workers.event}', '0');
-- Work comes last, and its own returns are no signal.
call scylla.wait_for_event('hears', '{workers.event}', '0');
drop table held;
create temp table held as select * from scylla.own_tasks('hears', 'workers.event', 2, timeout => '1 hour');
select scylla.return_task(id, token, 'retry', run_at => '2100-01-01Z') from (select * from held order by id limit 1) h;
select scylla.return_task(id, token) from (select * from held order by id offset 1) h;
call scylla.wait_for_event('hears', '{workers.event}', '0');
-- A signal before a drain.
select count(scylla.submit('workers.event')) from generate_series(1, 1);
select scylla.cancel(id) from scylla.own_tasks('hears', 'workers.event');
select scylla.drain_worker('hears');
call scylla.wait_for_event('hears', '{workers.event}', '0');
call scylla.wait_for_event('hears', '{workers.event}', '0');
