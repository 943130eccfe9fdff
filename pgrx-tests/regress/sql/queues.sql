-- Settings of queues: what they change, for which tasks, and what is refused.
-- A queue without settings has the server's; the task's own setting wins over the queue's.
create view lease as
select key, extract(epoch from deadline - clock_timestamp()) between 25 and 30 as the_queues,
    extract(epoch from deadline - clock_timestamp()) between 295 and 300 as its_own
from scylla.tasks where queue = 'queues';
select count(scylla.submit('queues', key => 'before'));
select scylla.configure_queue('queues', timeout => '30 s');
select count(scylla.submit('queues', key => 'own', timeout => '5 min'));
select count(*) from scylla.own_tasks('w', 'queues', 2);
select * from lease order by key;

-- Null leaves a setting as it is; reset_queue takes it back to the default.
select scylla.configure_queue('queues', retention => '1 h', keep_finished => true);
select scylla.configure_queue('queues');
select queue, paused, timeout, retention, keep_finished, critical, max_tries, retry_interval, retry_jitter
from scylla.queue where queue = 'queues';
select scylla.reset_queue('queues', setting) from unnest(array['timeout', 'retention']) setting;
select queue, paused, timeout, retention, keep_finished, critical, max_tries, retry_interval, retry_jitter
from scylla.queue where queue = 'queues';
select count(scylla.submit('queues', key => 'default'));
select deadline - clock_timestamp() between '8 s' and '10 s' as the_servers from scylla.own_tasks('w', 'queues');
-- A rollback undoes a change, also to a savepoint.
begin;
select scylla.configure_queue('queues', timeout => '40 s');
savepoint s;
select scylla.configure_queue('queues', timeout => '50 s');
rollback to s;
commit;
begin;
select scylla.configure_queue('queues', timeout => '60 s');
rollback;
select count(scylla.submit('queues', key => 'again'));
select deadline - clock_timestamp() between '38 s' and '40 s' as forty from scylla.own_tasks('w', 'queues');

-- Pausing: nothing is handed out, whatever else happens.
select scylla.submit('queues.pause') as id \gset
select scylla.pause('queues.pause');
select count(*) from scylla.own_tasks('w', 'queues.pause');
\set VERBOSITY terse
select * from scylla.own_task(:'id', 'w');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
select scylla.why(:'id');
select scylla.submit('queues.pause') is not null as submitted;
-- Twice is once.
select scylla.pause('queues.pause');
select scylla.resume('queues.pause');
select scylla.resume('queues.pause');
select token from scylla.own_tasks('w', 'queues.pause') \gset
-- What runs when the queue is paused goes on.
select scylla.pause('queues.pause');
select scylla.extend(:'id', :'token'), scylla.return_task(:'id', :'token');
select scylla.resume('queues.pause');
select count(*) from scylla.own_tasks('w', 'queues.pause', 9);
-- A queue whose tasks have all settled can be paused.
select scylla.submit('queues.past') as past \gset
select scylla.cancel(:'past');
select scylla.pause('queues.past'), scylla.resume('queues.past');
-- A pause that rolled back has no effect.
begin;
select scylla.pause('queues.pause');
rollback;
select scylla.submit('queues.pause') as id \gset
select count(*) from scylla.own_tasks('w', 'queues.pause', 9);

-- Critical queues only: B104.
select scylla.submit('queues.plain') as plain, scylla.submit('queues.critical') as critical \gset
select scylla.configure_queue('queues.critical', critical => true);
select scylla.critical_only(true);
select count(*) from scylla.own_tasks('w', 'queues.plain');
\set VERBOSITY terse
select * from scylla.own_task(:'plain', 'w');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
select scylla.why(:'plain');
select id = :'critical' as critical from scylla.own_tasks('w', 'queues.critical');
select critical_only from scylla.incarnation;
-- Opening the database keeps it.
select scylla.open();
select count(*) from scylla.own_tasks('w', 'queues.plain');
begin;
select scylla.critical_only(false);
rollback;
select count(*) from scylla.own_tasks('w', 'queues.plain');
select scylla.critical_only(false);
select scylla.critical_only(false);
select id = :'plain' as plain from scylla.own_tasks('w', 'queues.plain');

-- keep_finished: a completed task leaves no trace, unless its result may be waited for.
select scylla.configure_queue('queues.gone', keep_finished => false);
select scylla.submit('queues.gone', '1') as first, scylla.submit('queues.gone', '2', post_result => true) as second,
    scylla.submit('queues.gone', '3') as third, scylla.submit('queues.gone', '4') as fourth \gset
select scylla.submit('queues', key => 'after', after => array[:'first'::uuid]) as after \gset
select array_agg(scylla.return_task(id, token, case spec when '3' then 'aborted' else 'completed' end,
    error => case spec when '3' then '{"code": "x", "args": {}, "description": ""}'::jsonb end) order by spec)
from scylla.own_tasks('w', 'queues.gone', 3);
select scylla.cancel(:'fourth');
select spec, status from scylla.tasks where queue = 'queues.gone' order by spec;
select scylla.task(:'after') ->> 'status' as dependent;
\set VERBOSITY sqlstate
select scylla.task(:'first');
\set VERBOSITY default
-- In bulk.
select count(scylla.submit('queues.gone', n)) from unnest(array['5', '6']::jsonb[]) n;
select count(scylla.submit('queues.gone', '7', post_result => true));
select scylla.return_tasks(array_agg(id), array_agg(token)) from scylla.own_tasks('w', 'queues.gone', 3);
select spec, status from scylla.tasks where queue = 'queues.gone' order by spec;
select scylla.reset_queue('queues.gone', 'keep_finished');
select count(scylla.submit('queues.gone', '8'));
select scylla.return_task(id, token) from scylla.own_tasks('w', 'queues.gone');
select spec, status from scylla.tasks where queue = 'queues.gone' and spec = '8';

-- release_worker: its tasks are as after an expiry.
select count(scylla.submit('queues.release')) from generate_series(1, 5);
select count(*) from scylla.own_tasks('worker 1', 'queues.release', 2);
select id, token from scylla.own_tasks('worker 2', 'queues.release') \gset
begin;
select scylla.release_worker('worker 1');
rollback;
select status, owner, count(*) from scylla.tasks where queue = 'queues.release' group by 1, 2 order by 1, 2;
select scylla.release_worker('worker 1'), scylla.release_worker('worker 9');
select status, owner, count(*), min(tries), min(history -> -1 ->> '_typ') as last
from scylla.tasks where queue = 'queues.release' group by 1, 2 order by 1, 2;
-- It cannot return them any more.
select scylla.release_worker('worker 2');
\set VERBOSITY sqlstate
select scylla.return_task(:'id', :'token');
\set VERBOSITY default
select count(*) from scylla.own_tasks('worker 3', 'queues.release', 9);

-- B29: a point of priority per interval, 255 at most; within one priority age never changes the
-- order.
select scylla.configure_queue('queues.age', aging => '1 ms');
select count(scylla.submit('queues.age', to_jsonb(n))) from generate_series(1, 2) n;
select pg_sleep(0.3);
select count(scylla.submit('queues.age', to_jsonb(n), priority => 100)) from generate_series(3, 4) n;
select spec, priority from scylla.own_tasks('w', 'queues.age');
-- Without it the tasks that are there are in their order again.
select scylla.reset_queue('queues.age', 'aging');
select spec, priority from scylla.own_tasks('w', 'queues.age');
select scylla.configure_queue('queues.age', aging => '1 ms');
select pg_sleep(0.3);
select spec, priority from scylla.own_tasks('w', 'queues.age', 9);
-- Age counts from a later run_at.
select scylla.configure_queue('queues.age', aging => '1.9 s');
select count(scylla.submit('queues.age', '5', run_at => clock_timestamp() + '2 s'));
select pg_sleep(2.1);
select count(scylla.submit('queues.age', '6', priority => 1));
select spec, priority from scylla.own_tasks('w', 'queues.age', 2);

-- What is refused.
\set VERBOSITY terse
select scylla.configure_queue('', timeout => '1 s');
select scylla.configure_queue(repeat('x', 49));
select scylla.configure_queue('queues', timeout => '0');
select scylla.configure_queue('queues', timeout => '-1 s');
select scylla.configure_queue('queues', retention => '-1 s');
select scylla.configure_queue('queues', max_running => 0);
select scylla.configure_queue('queues', max_running => -1);
select scylla.configure_queue('queues', max_per_second => 0);
select scylla.configure_queue('queues', max_per_second => -1);
select scylla.configure_queue('queues', max_per_second => 'NaN');
select scylla.configure_queue('queues', max_per_second => 'Infinity');
select scylla.configure_queue('queues', aging => '0');
select scylla.configure_queue('queues', aging => '-1 s');
select scylla.configure_queue('queues', max_tries => -1);
select scylla.configure_queue('queues', retry_interval => '-1 s');
select scylla.configure_queue('queues', retry_jitter => '-1 s');
select scylla.configure_queue('queues', max_ready => 0);
select scylla.configure_queue('queues', max_ready => -1);
select scylla.configure_queue('queues', max_running_per_group => 0);
select scylla.configure_queue('queues', max_running_per_group => -1);
select scylla.reset_queue('queues', 'paused');
select scylla.reset_queue('queues', 'queue');
select scylla.release_worker('');
\set VERBOSITY sqlstate
select scylla.configure_queue(null);
select scylla.reset_queue('queues', null);
select scylla.reset_queue('no such queue', 'timeout');
select scylla.pause('no such queue');
select scylla.pause(null);
select scylla.resume('no such queue');
select scylla.critical_only(null);
select scylla.release_worker(null);
begin read only;
select scylla.configure_queue('queues');
rollback;
begin read only;
select scylla.pause('queues');
rollback;
\set VERBOSITY default
-- A queue with tasks only exists; it may wait for its time.
select scylla.submit('queues.later', run_at => '2100-01-01Z') as later \gset
select scylla.pause('queues.later');
select scylla.cancel(:'later');
drop view lease;
