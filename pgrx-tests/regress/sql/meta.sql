-- What a client notes about a task: the worker gets it, the task keeps it.
select scylla.submit('meta', '1', meta => '{"trace": "t1", "tags": ["a", "b"]}') as id \gset
select scylla.submit('meta', '2') is not null as submitted;
select spec, meta, created = (select created from scylla.tasks t where t.id = o.id) as same_created
from scylla.own_tasks('w', 'meta', 2) o;
select scylla.task(:'id') -> 'meta' as entry, (select meta from scylla.tasks where id = :'id') as tasks;
select scylla.cancel(:'id');
select scylla.task(:'id') -> 'meta' as entry, (select meta from scylla.tasks where id = :'id') as tasks;

-- A task that is submitted again has it, too; so has one whose tries are exhausted.
select count(scylla.resubmit(array[:'id'::uuid]));
select id, token, meta from scylla.own_tasks('w', 'meta') \gset
\echo :meta
select scylla.return_task(:'id', :'token', 'aborted', error => '"an error"');
select status, meta from scylla.tasks where id = :'id';
select scylla.submit('meta.tries', max_tries => 1, meta => '{"a": 1}') as id \gset
select id, token from scylla.own_tasks('w', 'meta.tries') \gset
select scylla.return_task(:'id', :'token', 'retry');
select status, meta from scylla.tasks where id = :'id';

-- Many tasks: one for all, or each its own.
select count(*) from unnest(scylla.submit_many('meta.many', array['1', '2']::jsonb[], meta => '{"batch": 7}'));
select count(*) from unnest(scylla.submit_many('meta.many', array['3']::jsonb[]));
select outcome, error from scylla.submit_tasks('[
    {"queue": "meta.many", "spec": 4, "meta": {"n": 4}},
    {"queue": "meta.many", "spec": 5, "meta": null},
    {"queue": "meta.many", "spec": 6, "meta": {}, "key": "k"},
    {"queue": "meta.many", "spec": 7, "meta": [7]},
    {"queue": "meta.many", "spec": 8, "meta": "8"}]', atomic => false);
select spec, meta from scylla.own_tasks('w', 'meta.many', 10);

-- The runs of a schedule have the schedule's.
select scylla.schedule('meta', 'every 1 hour', 'meta.runs', meta => '{"of": "schedule"}') is not null as registered;
select meta from scylla.schedules where name = 'meta';
select scylla._fire_schedules(now() + interval '1 hour', now() + interval '1 hour') > 0 as fired;
select meta from scylla.tasks where queue = 'meta.runs';
select scylla.alter_schedule('meta', meta => '{"of": "alter"}');
select meta from scylla.schedules where name = 'meta';
select scylla.alter_schedule('meta', priority => 1);
select meta from scylla.schedules where name = 'meta';
select scylla.schedule('meta', 'every 1 hour', 'meta.runs') is not null as replaced;
select meta from scylla.schedules where name = 'meta';
select scylla.unschedule('meta');

-- So have SQL tasks.
select scylla.run_sql('select 1', run_at => '2100-01-01Z', meta => '{"of": "run_sql"}') as id \gset
select scylla.task(:'id') -> 'meta' as meta;
select scylla.cancel(:'id');
select scylla.schedule_sql('meta', '@daily', 'select 1', meta => '{"of": "schedule_sql"}') is not null as registered;
select meta from scylla.schedules where name = 'meta';
select scylla.unschedule('meta');

-- The worker is told how many tries the task has: its own number, else the queue's, else the server's,
-- as they are now.
select scylla.submit('meta.max', '"own"', max_tries => 3), scylla.submit('meta.max', '"none"', max_tries => 0),
    scylla.submit('meta.max', '"queue"') \gset
begin;
select spec, max_tries from scylla.own_tasks('w', 'meta.max', 3) order by spec;
rollback;
select scylla.configure_queue('meta.max', max_tries => 7);
begin;
select spec, max_tries from scylla.own_tasks('w', 'meta.max', 3) order by spec;
rollback;
begin;
select scylla.configure_queue('meta.max', max_tries => 8);
savepoint before;
select scylla.configure_queue('meta.max', max_tries => 0);
select max_tries from scylla.own_tasks('w', 'meta.max', 3) where spec = '"queue"';
rollback to savepoint before;
select max_tries from scylla.own_tasks('w', 'meta.max', 3) where spec = '"queue"';
rollback;
select max_tries from scylla.own_tasks('w', 'meta.max', 3) where spec = '"queue"';
select scylla.release_worker('w') > 0 as released;
select scylla.reset_queue('meta.max', 'max_tries');
select max_tries from scylla.own_tasks('w', 'meta.max', 3) where spec = '"queue"';
