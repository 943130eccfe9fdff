-- Waiting: which calls the procedures refuse, and their answers when they need not wait.
\set VERBOSITY terse
-- Arguments.
call scylla.wait_for_work(null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work(repeat('q', 49));
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('wait', null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('wait', '-1 ms');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('wait', 'soon');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('wait', actions => array[null::text]);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_work('wait', actions => array[repeat('a', 129)]);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any(null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any('{}');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any(array_fill('q'::text, array[17]));
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any('{{a},{b}}');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any(array['wait', null]);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any(array['wait', '']);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any('{wait}', '-1 ms');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_any('{wait}', null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_task(null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_task('00000000-0000-0000-0000-000000000001', null);
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_task('00000000-0000-0000-0000-000000000001', '-1 year');
\echo :LAST_ERROR_SQLSTATE
call scylla.wait_for_task('00000000-0000-0000-0000-000000000001');
\echo :LAST_ERROR_SQLSTATE
-- In contexts where they cannot end the transaction.
begin;
call scylla.wait_for_work('wait');
rollback;
\echo :LAST_ERROR_SQLSTATE
begin;
call scylla.wait_for_task('00000000-0000-0000-0000-000000000001');
rollback;
\echo :LAST_ERROR_SQLSTATE
begin;
call scylla.wait_for_any('{wait}');
rollback;
\echo :LAST_ERROR_SQLSTATE
select 1 as one \; call scylla.wait_for_work('wait');
\echo :LAST_ERROR_SQLSTATE
select scylla.wait_for_work('wait');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
-- The message in full.
begin;
call scylla.wait_for_work('wait');
rollback;
-- A time-out is no error.
call scylla.wait_for_work('wait', '10 ms');
call scylla.wait_for_work('wait', timeout => '0', available => null);
-- A ready task, of any action; a waiting task does not count.
select scylla.submit('wait', action => 'some', post_result => true) as id \gset
call scylla.wait_for_work('wait');
call scylla.wait_for_work('wait', timeout => '100 years', available => true);
call scylla.wait_for_work('wait', actions => '{other,some}');
call scylla.wait_for_work('wait', '10 ms', '{other}');
call scylla.wait_for_work('wait', '0', '{}');
call scylla.wait_for_any(array_fill('wait'::text, array[16]), queue => 'other');
call scylla.wait_for_any('{wait too,wait}', '1 s', '{some}', null);
call scylla.wait_for_any('{wait too,wait}', '0', '{other}');
select scylla.submit('wait later', after => array[:'id'::uuid]) as later \gset
call scylla.wait_for_work('wait later', '10 ms');
call scylla.wait_for_task(:'id', '10 ms');
select token from scylla.own_tasks('w', 'wait') \gset
call scylla.wait_for_work('wait', '0');
select scylla.return_task(:'id', :'token', result => '{"sum": 3}');
call scylla.wait_for_task(:'id');
CALL scylla.wait_for_task(:'id', timeout => '1 minute', status => NULL, result => NULL);
call scylla.wait_for_work('wait later');
\set VERBOSITY sqlstate
call scylla.wait_for_task(:'later');
\set VERBOSITY default
-- Privileges.
select proname, has_function_privilege('public', oid, 'execute')
from pg_proc where pronamespace = 'scylla'::regnamespace and prokind = 'p' order by 1;
select scylla.cancel(:'later');
