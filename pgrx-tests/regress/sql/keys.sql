-- Keys (B74): one unfinished task for each queue and key.
select scylla.submit('keys', '"first"', key => 'k') as first \gset
select scylla.task(:'first') ->> 'key' as key, scylla.task_id('keys', 'k') = :'first' as found;

-- error, the default: the existing task remains.
\set VERBOSITY sqlstate
select scylla.submit('keys', key => 'k');
select scylla.submit('keys', key => 'k', on_conflict => 'error');
\set VERBOSITY default
select outcome, error from scylla.submit_tasks('[{"queue": "keys", "key": "k"}, {"queue": "keys", "key": "l"}]', false);
-- ignore: the id of the existing task.
select scylla.submit('keys', '"second"', key => 'k', on_conflict => 'ignore') = :'first' as the_same;
select outcome, id = :'first' as the_same, error
from scylla.submit_tasks('[{"queue": "keys", "key": "k", "on_conflict": "ignore", "spec": "second"}]');
select spec, key from scylla.task where queue = 'keys' order by key collate "C";
-- Another queue or another letter is another key. NULL is not a key.
select count(distinct scylla.submit('keys.more', key => k)) from unnest(array['k', 'K', ' k', 'k%', null, null]) k;
select scylla.task_id('keys.more', 'k%') is not null as exact, scylla.task_id('keys.more', 'k_'), scylla.task_id('keys.absent', 'k');

-- replace (B71): the existing task is cancelled, the new one gets its key.
select scylla.submit('keys', '"new"', key => 'k', on_conflict => 'replace') as new \gset
select scylla.task(:'first') ->> 'status' as old, scylla.task(:'first') ->> 'key' as key, scylla.task_id('keys', 'k') = :'new' as found;
select scylla.submit('keys', key => 'one''s', on_conflict => 'replace') = scylla.task_id('keys', 'one''s') as inserted;
select spec, key from scylla.own_tasks('w', 'keys', 9, timeout => '1 hour') order by key collate "C";
-- A running task cannot be replaced, not even by the transaction that owns it.
\set VERBOSITY sqlstate
select scylla.submit('keys', key => 'k', on_conflict => 'replace');
\set VERBOSITY default
select outcome, error = format('cannot replace task %s because it is running', :'new') as told
from scylla.submit_tasks('[{"queue": "keys", "key": "k", "on_conflict": "replace"}]', false);
select scylla.task(:'new') ->> 'status' as status, scylla.task_id('keys', 'k') = :'new' as found;

-- A key is free again when its task has settled, in any way.
select scylla.cancel(:'new');
select scylla.task_id('keys', 'k'), scylla.submit('keys', key => 'k') is not null as submitted;
select scylla.submit('keys.free', key => 'k') as one \gset
select scylla.return_task(id, token) from scylla.own_tasks('w', 'keys.free');
select scylla.submit('keys.free', key => 'k') <> :'one' as another;
select scylla.return_task(id, token, 'aborted', error => '{"code": "", "args": {}, "description": ""}') from scylla.own_tasks('w', 'keys.free');
select scylla.submit('keys.free', key => 'k') is not null as another;
-- Retried and replaced by one transaction.
begin;
select scylla.return_task(id, token, 'retry') from scylla.own_tasks('w', 'keys.free');
select scylla.submit('keys.free', '"new"', key => 'k', on_conflict => 'replace') is not null as replaced;
commit;
select spec from scylla.own_tasks('w', 'keys.free', 9);

-- A late worker still has the task until it is replaced.
select scylla.submit('keys.late', key => 'k', timeout => '1 ms') as late \gset
select token from scylla.own_tasks('w', 'keys.late') \gset
do $$ begin
    while scylla.task(scylla.task_id('keys.late', 'k')) ->> 'status' <> 'ready' loop perform pg_sleep(0.005); commit; end loop;
end $$;
select scylla.submit('keys.late', '"new"', key => 'k', on_conflict => 'replace') is not null as replaced;
select scylla.extend(:'late', :'token');
select spec from scylla.own_tasks('w', 'keys.late', 9);

-- A rollback restores the old task; replacing again and again leaves one.
select scylla.submit('keys.back', '1', key => 'k') as old \gset
begin;
select scylla.submit('keys.back', '2', key => 'k', on_conflict => 'replace') is not null as replaced;
select scylla.submit('keys.back', '3', key => 'k', on_conflict => 'replace') is not null as replaced;
rollback;
select scylla.task_id('keys.back', 'k') = :'old' as found;
begin;
select scylla.submit('keys.back', '2', key => 'k', on_conflict => 'replace') is not null as replaced;
savepoint s;
select scylla.submit('keys.back', '3', key => 'k', on_conflict => 'replace') is not null as replaced;
rollback to s;
commit;
select count(scylla.submit('keys.back', to_jsonb(n), key => 'k', on_conflict => 'replace')) from generate_series(3, 50) n;
select status, count(*) from scylla.tasks where queue = 'keys.back' group by status order by status;
select spec from scylla.own_tasks('w', 'keys.back', 9);

-- A key and an id: both must be free; the id is checked first.
select scylla.submit('keys.both', key => 'k', id => '00000000-0000-4000-8000-000000000741') = scylla.task_id('keys.both', 'k') as found;
select outcome, error from scylla.submit_tasks('[
    {"queue": "keys.both", "key": "k", "id": "00000000-0000-4000-8000-000000000741", "on_conflict": "replace"},
    {"queue": "keys.both", "key": "l", "id": "00000000-0000-4000-8000-000000000741", "on_conflict": "ignore"},
    {"queue": "keys.both", "key": "k", "id": "00000000-0000-4000-8000-000000000742"}]', false);
-- The dependents of a replaced task are aborted or counted down.
select scylla.submit('keys.both', '"follower"', after => array[scylla.task_id('keys.both', 'k')]) as follower \gset
select scylla.submit('keys.both', key => 'k', on_conflict => 'replace') is not null as replaced;
select scylla.task(:'follower') ->> 'status' as follower;
-- A waiting task can be replaced as well, and is waited for no more.
select scylla.submit('keys.both', key => 'w', after => array[scylla.task_id('keys.both', 'k')]) is not null as waits;
select scylla.submit('keys.both', key => 'w', on_conflict => 'replace') is not null as replaced;
select count(*) as links from scylla.dependency d join scylla.task t on t.id = d.after where t.queue = 'keys.both';

-- Within one array the first of two equal keys wins.
select row_number() over () as n, outcome, error, id = first_value(id) over () as first from scylla.submit_tasks('[
    {"queue": "keys.array", "key": "k", "spec": 1},
    {"queue": "keys.array", "key": "k", "spec": 2, "on_conflict": "ignore"},
    {"queue": "keys.array", "key": "k", "spec": 3},
    {"queue": "keys.array", "key": "k", "spec": 4, "on_conflict": "replace"},
    {"queue": "keys.array", "key": "l", "spec": 5, "priority": -1},
    {"queue": "keys.array", "key": "l", "spec": 6},
    {"queue": "keys.array.2", "key": "k", "spec": 7}]', false);
select spec, key from scylla.task where queue like 'keys.array%' order by spec;
select * from scylla.submit_tasks('[{"queue": "keys.array", "key": "m"}, {"queue": "keys.array", "key": "m"}]');
select scylla.task_id('keys.array', 'm');
-- Many at once, replaced at once.
select outcome, count(*) from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'keys.many', 'key', n)) from (select n::text from generate_series(1, 2000) n) n)) group by outcome;
select outcome, count(*) from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'keys.many', 'key', n, 'on_conflict', 'replace'))
    from (select n::text from generate_series(1, 2000) n) n)) group by outcome;
select status, count(*) from scylla.tasks where queue = 'keys.many' group by status order by status;
select count(*) from scylla.own_tasks('w', 'keys.many', 9999);
