-- Delayed tasks. B80: a task whose time has come is ready at once, whatever its time was.
select scylla.submit('delay', '1', run_at => now() + interval '1 hour') as later \gset
select scylla.submit('delay', '2', run_at => now()) as now \gset
select scylla.submit('delay', '3', run_at => '0044-03-15 BC') as past \gset
select t.spec, t.status, t.run_at > now() as ahead from scylla.tasks t where queue = 'delay' order by created;
select scylla.task(:'later')->>'status' as status, (scylla.task(:'later')->>'run_at')::timestamptz > now() as ahead;

-- A waiting task is not owned.
select spec from scylla.own_tasks('w', 'delay', 9);
\set VERBOSITY sqlstate
select * from scylla.own_task(:'later', 'w');
\set VERBOSITY default

-- A waiting task can be postponed, and brought forward.
select scylla.delay(:'later', now() + interval '2 hours');
select scylla.task(:'later')->>'status' as status, (scylla.task(:'later')->>'run_at')::timestamptz > now() + interval '1 hour' as ahead;
select scylla.delay(task => :'later', until => now());
select scylla.task(:'later')->>'status' as status;

-- So can a ready task; then no worker owns it.
select scylla.delay(:'later', now() + interval '1 hour');
select scylla.task(:'later')->>'status' as status;
select count(*) from scylla.own_tasks('w', 'delay', 9);

\set VERBOSITY sqlstate
select scylla.delay(:'later', '-infinity');
select scylla.delay(:'later', 'infinity');
select scylla.delay(:'later', null);
select scylla.delay(null::uuid, now());
select scylla.delay('00000000-0000-4000-8000-0000000000de', now());
select scylla.submit('delay', run_at => 'infinity');
select scylla.submit('delay', run_at => '-infinity');
\set VERBOSITY default
-- Brought forward to the past, it is ready again.
select scylla.delay(:'later', '4713-01-01 BC');
select scylla.task(:'later')->>'status' as status;

-- A running or a settled task cannot be delayed.
select scylla.delay(:'now', now() + interval '1 hour');
select token from scylla.own_task(:'later', 'w') \gset
select scylla.return_task(:'later', :'token');
select scylla.delay(:'later', now() + interval '1 hour');
select scylla.cancel(:'now');
select scylla.delay(:'now', now());

-- A rollback undoes delays, to the savepoint.
select scylla.submit('delay.undone', '4') as id \gset
begin;
select scylla.delay(:'id', now() + interval '1 hour');
select count(*) from scylla.own_tasks('w', 'delay.undone');
rollback;
select scylla.task(:'id')->>'status' as status;
begin;
savepoint here;
select scylla.delay(:'id', now() + interval '1 hour');
rollback to here;
select spec from scylla.own_tasks('w', 'delay.undone');
rollback;

-- The last of several delays in one transaction counts.
begin;
select scylla.delay(:'id', now() + interval '1 hour'), scylla.delay(:'id', now()), scylla.delay(:'id', now() + interval '2 hours');
commit;
select scylla.task(:'id')->>'status' as status;
select count(*) from scylla.own_tasks('w', 'delay.undone');
begin;
select scylla.delay(:'id', now()), scylla.delay(:'id', now() + interval '2 hours'), scylla.delay(:'id', now());
commit;
select id = :'id' as owned, token from scylla.own_tasks('w', 'delay.undone') \gset
\echo :owned
-- A task that was returned in the transaction can be delayed in it.
begin;
select scylla.return_task(:'id', :'token', 'retry');
select scylla.delay(:'id', now() + interval '1 hour');
commit;
select scylla.task(:'id')->>'status' as status;
select count(*) from scylla.own_tasks('w', 'delay.undone');

-- In an array of tasks, too; a waiting task can be cancelled.
select outcome from scylla.submit_tasks(jsonb_build_array(
    jsonb_build_object('queue', 'delay.many', 'run_at', now() + interval '1 hour'),
    jsonb_build_object('queue', 'delay.many', 'run_at', '2001-01-01'),
    jsonb_build_object('queue', 'delay.many', 'run_at', 'infinity'),
    jsonb_build_object('queue', 'delay.many', 'run_at', 'NaN'),
    jsonb_build_object('queue', 'delay.many', 'run_at', null)), atomic => false);
select status, count(*) from scylla.tasks where queue = 'delay.many' group by status order by status;
select bool_and(scylla.cancel(id)) from scylla.tasks where queue = 'delay.many' and status = 'waiting';
select count(*) from scylla.own_tasks('w', 'delay.many', 9);
