-- Moving a queue: its tasks are there as they were, and those that move are neither owned nor taken.
select count(scylla.submit('moved', jsonb_build_object('n', n), priority => n % 5, key => 'k' || n, group_key => 'g' || n % 7))
from generate_series(1, 2500) n;
select scylla.submit('moved', run_at => '2099-01-01', key => 'late') as late \gset
select scylla.delay('m1', '2099-01-01', 'moved', 'v');
select scylla.configure_queue('moved', timeout => '17 s', max_tries => 7);
select id as retried, token from scylla.own_tasks('w', 'moved') \gset
select scylla.return_task(:'retried', :'token', 'retry', error => '"once"');
select id as held, token from scylla.own_tasks('w', 'moved') \gset
select shard as from, (shard + 1) % 4 as to, (shard + 2) % 4 as elsewhere from router.queue where queue = 'moved' \gset
create temp table was as select id, spec, priority, key, group_key, created, status, tries, errors, history, run_at from scylla.tasks where queue = 'moved';
-- A task is running: the call gives up, and goes on when it is repeated.
\set VERBOSITY terse
call router.move_queue('moved', :to, '200 ms');
select scylla.submit('moved');
select count(*) from scylla.own_tasks('w', 'moved');
call router.move_queue('moved', :elsewhere);
select scylla.return_task(:'held', :'token');
-- A task that has changed on the source is not that of a copy which was left behind.
select id as cancelled from scylla.tasks where queue = 'moved' and key = 'k7' \gset
select scylla.cancel(:'cancelled');
\set VERBOSITY default
call router.move_queue('moved', :to);
-- It is there.
call router.move_queue('moved', :to);
\set VERBOSITY terse
select shard = :to as there, moving_to, paused from router.queue where queue = 'moved';
select count(*) from scylla.tasks where queue = 'moved' and shard = :from and status in ('ready', 'waiting', 'running');
select count(*), count(*) filter (where t.shard = :to) as there, count(*) filter (where
    (t.id, t.spec, t.priority, t.key, t.group_key, t.created, t.status, t.tries, t.errors, t.history, t.run_at)
        is not distinct from (w.id, w.spec, w.priority, w.key, w.group_key, w.created, w.status, w.tries, w.errors, w.history, w.run_at)) as same
from was w join scylla.tasks t using (id) where w.id not in (:'held', :'cancelled');
select timeout, max_tries, paused from scylla.queues where queue = 'moved' and shard = :to;
select scylla.task(:'held') ->> 'status' as held, scylla.task(:'cancelled') ->> 'status' as cancelled, scylla.task(:'late') ->> 'status' as late;
-- By the ids, which name the other shard, and by the queue.
select scylla.cancel(:'late'), scylla.cancel_message('moved', 'm1');
select scylla.submit('moved', key => 'k8');
select scylla.submit('moved', key => 'new') is not null as taken;
select count(*), count(distinct id) from scylla.own_tasks('w', 'moved', 5000);
select count(*) from scylla.own_tasks('w', 'moved', 5000);
-- What stays where it is.
select scylla.submit('tied') as first \gset
select scylla.submit('tied', after => array[:'first'::uuid]) is not null;
select (shard + 1) % 4 as other from router.queue where queue = 'tied' \gset
call router.move_queue('tied', :other);
select scylla.schedule('t', 'every 1 h', 'timed') > 0;
select (shard + 1) % 4 as other from router.queue where queue = 'timed' \gset
call router.move_queue('timed', :other);
select scylla.unschedule('t');
call router.move_queue('wide', 1);
begin;
call router.move_queue('tied', 1);
rollback;
