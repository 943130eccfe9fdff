-- Owning: the row that a worker gets, and the state of the task.
select scylla.submit('own', '{"n": 1}', 'a', priority => 3, max_tries => 5, timeout => '1 hour') as id \gset
select id = :'id' as same, token, action, spec, priority, key, tries, num_failures, deadline
from scylla.own_tasks('w1', 'own') \gset
\echo :same :action :spec :priority :tries :num_failures
select substr(:'token', 15, 1) as version, :'deadline'::timestamptz - clock_timestamp() between '59 min' and '1 hour' as an_hour;
select jsonb_pretty(scylla.task(:'id') - 'rn' - 'created' - 'updated' - 'deadline' - 'history') as entry;
select scylla.task(:'id') ->> 'deadline' = to_jsonb(:'deadline'::timestamptz) #>> '{}' as same_deadline,
    jsonb_path_query_array(scylla.task(:'id'), '$.history[*].keyvalue().key') as keys,
    scylla.task(:'id') #>> '{history,0,_typ}' as typ, scylla.task(:'id') #>> '{history,0,worker}' as worker;

-- No other worker gets it, and it is handed out once.
select count(*) from scylla.own_tasks('w1', 'own', 10);
select count(*) from scylla.own_tasks('w2', 'own', 10);

-- No more than asked for; none of a queue that was never used.
select count(scylla.submit('own.some', to_jsonb(n))) from generate_series(1, 5) n;
select spec from scylla.own_tasks('w', 'own.some', 2);
select spec from scylla.own_tasks('w', 'own.some', 2147483647);
select count(*) from scylla.own_tasks('w', 'own.never used');

-- All tasks that were asked for are leased, even if not all rows are read.
select count(scylla.submit('own.rows', to_jsonb(n))) from generate_series(1, 3) n;
select spec from scylla.own_tasks('w', 'own.rows', 2) limit 1;
select spec, status from scylla.tasks where queue = 'own.rows' order by spec;

-- Only the actions asked for; the order holds across actions.
select count(scylla.submit('own.action', to_jsonb(n), action)) from (values
    (1, 'b'), (2, 'a'), (3, ''), (4, 'a'), (5, 'B'), (6, 'b')) as v (n, action);
select action, spec from scylla.own_tasks('w', 'own.action', 10, '{nothing}');
select action, spec from scylla.own_tasks('w', 'own.action', 10, '{}');
select action, spec from scylla.own_tasks('w', 'own.action', 2, '{a,b,a}');
select action, spec from scylla.own_tasks('w', 'own.action', 10, '{B,""}');
select action, spec from scylla.own_tasks('w', 'own.action', 10);

-- The lease's length: the caller's, the task's, the setting's; 100 years never expire.
select count(scylla.submit('own.length', timeout => timeout)) from (values (interval '2 hours'), (null)) as v (timeout);
begin;
select round(extract(epoch from deadline - clock_timestamp()) / 5) * 5 as seconds from scylla.own_tasks('w', 'own.length', 2);
rollback;
begin;
set local scylla.lease_timeout = '90s';
select round(extract(epoch from deadline - clock_timestamp()) / 5) * 5 as seconds from scylla.own_tasks('w', 'own.length', 2);
rollback;
begin;
select round(extract(epoch from deadline - clock_timestamp()) / 5) * 5 as seconds
from scylla.own_tasks('w', 'own.length', 2, timeout => '1 min 30 s');
rollback;
select deadline from scylla.own_tasks('w', 'own.length', 1, timeout => '100 years');
select deadline is null as endless from scylla.own_tasks('w', 'own.length', 1, timeout => '99 years');

-- By id: only a ready task.
select scylla.submit('own.id', '"it"', id => '00000000-0000-4000-8000-000000000021', priority => 1);
select scylla.submit('own.id', '"other"', priority => 9) is not null;
select id, spec, tries, token is not null as token from scylla.own_task('00000000-0000-4000-8000-000000000021', 'w');
select * from scylla.own_task('00000000-0000-4000-8000-000000000021', 'w');
select scylla.cancel('00000000-0000-4000-8000-000000000021');
select * from scylla.own_task('00000000-0000-4000-8000-000000000021', 'w');
select * from scylla.own_task('00000000-0000-4000-8000-00000000002f', 'w');
select spec from scylla.own_tasks('w', 'own.id', 10);

-- A rollback makes them ready again, in the same place of the order; savepoints too.
select count(scylla.submit('own.back', to_jsonb(n))) from generate_series(1, 3) n;
begin;
select spec, tries from scylla.own_tasks('w', 'own.back', 2);
rollback;
begin;
select spec from scylla.own_tasks('w', 'own.back');
savepoint s;
select spec from scylla.own_tasks('w', 'own.back', 2);
rollback to s;
select spec from scylla.own_tasks('w', 'own.back');
commit;
select spec, tries from scylla.own_tasks('w', 'own.back', 3);

-- Owned and returned in one transaction, which rolls back.
select scylla.submit('own.both') as id \gset
begin;
select id, token from scylla.own_tasks('w', 'own.both') \gset
select scylla.extend(:'id', :'token', progress => 0.5);
select scylla.return_task(:'id', :'token');
select scylla.task(:'id') ->> 'status' as status;
rollback;
select scylla.task(:'id') ->> 'status' as status, scylla.task(:'id') -> 'history' as history;
select scylla.extend(:'id', :'token');
select tries from scylla.own_tasks('w', 'own.both');

-- A name for a worker is returned once, even if the transaction rolls back.
select scylla.register_worker() as first \gset
begin;
select scylla.register_worker() as second \gset
rollback;
select scylla.register_worker() as third \gset
select :'first' ~ '^worker-[0-9]+$' as pattern, substr(:'second', 8)::int - substr(:'first', 8)::int as one,
    substr(:'third', 8)::int - substr(:'second', 8)::int as another;

-- Owning changes the board.
begin read only;
select count(*) from scylla.own_tasks('w', 'own');
\echo :LAST_ERROR_SQLSTATE
rollback;
