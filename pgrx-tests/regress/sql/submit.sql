-- Submitting one task: its initial state, and the effect of each argument.
select scylla.submit('submit') as id \gset
select jsonb_pretty(scylla.task(:'id') - 'rn' - 'created' - 'updated') as entry;
select scylla.task(:'id') ->> 'rn' = :'id' as same_id,
    scylla.task(:'id') -> 'created' = scylla.task(:'id') -> 'updated' as never_written,
    (scylla.task(:'id') ->> 'created')::timestamptz between now() - interval '1 minute' and clock_timestamp() as just_now;

-- A generated id is a UUID of version 7, and later ones are greater.
select substr(:'id', 15, 1) as version, substr(:'id', 20, 1) in ('8', '9', 'a', 'b') as variant;
select scylla.submit('submit') > :'id' as later_is_greater from pg_sleep(0.002);

-- All arguments with values other than their defaults, by name and by place; literals of unknown
-- type too.
select scylla.submit(queue => 'submit.all', spec => '{"a": [1, null]}', action => 'act', priority => 4294967295,
    id => '00000000-0000-4000-8000-000000000001', key => null, on_conflict => 'error', run_at => null,
    after => null, on_failure => 'abort', max_tries => 3, retry_interval => '0', retry_jitter => '0',
    timeout => '00:01:30', post_result => true);
select scylla.submit('submit.all', '{"b": 2}', 'act', '7', '00000000-0000-4000-8000-000000000002');
select id, action, spec, priority, status, max_tries from scylla.tasks where queue = 'submit.all' order by id;
select timeout, post_result from scylla.task where queue = 'submit.all' order by id;

-- B7: any JSON but null is a spec.
select scylla.submit('submit.spec', spec) is not null as submitted, spec
from (values (0, jsonb '{}'), (1, '[]'), (2, '"text"'), (3, '0'), (4, 'false'), (5, '[null]')) as v (n, spec)
order by n;
select spec from scylla.own_tasks('w', 'submit.spec', 10);
select scylla.submit('submit', 'null');
select scylla.submit('submit', null);

-- The id of a live or a settled task is taken; the existing row is unchanged.
select scylla.submit('submit.other', '{"c": 3}', id => '00000000-0000-4000-8000-000000000001');
\echo :LAST_ERROR_SQLSTATE
select queue, spec, status from scylla.tasks where id = '00000000-0000-4000-8000-000000000001';
select scylla.cancel('00000000-0000-4000-8000-000000000001');
select scylla.submit('submit', id => '00000000-0000-4000-8000-000000000001');
select queue, status from scylla.tasks where id = '00000000-0000-4000-8000-000000000001';

-- The order: highest priority as a number, then the oldest.
select scylla.submit('submit.order', to_jsonb(priority), priority => priority) is not null
from (values (1, 9), (2, 10), (3, 4294967295), (4, 0), (5, 10), (6, 2147483648)) as v (n, priority)
order by n;
select spec, priority from scylla.own_tasks('w', 'submit.order', 10);

-- A rollback leaves no trace, also to a savepoint.
begin;
select scylla.submit('submit.back', '1') is not null as submitted;
savepoint s;
select scylla.submit('submit.back', '2') is not null as submitted;
rollback to s;
select scylla.submit('submit.back', '3') is not null as submitted;
select spec, status from scylla.tasks where queue = 'submit.back' order by spec;
select count(*) as offered_before_the_commit from scylla.own_tasks('w', 'submit.back', 10);
commit;
begin;
select scylla.submit('submit.back', '4') is not null as submitted;
rollback;
select spec from scylla.own_tasks('w', 'submit.back', 10);

-- The limit of a spec's size.
set scylla.max_spec_size = '1kB';
select scylla.submit('submit', to_jsonb(repeat('x', 900))) is not null as submitted;
\set VERBOSITY sqlstate
select scylla.submit('submit', to_jsonb(repeat('x', 1100)));
\set VERBOSITY default
reset scylla.max_spec_size;

-- It changes the database, so it fails in a read-only transaction; nor can its transaction be
-- prepared.
begin read only;
select scylla.submit('submit');
\echo :LAST_ERROR_SQLSTATE
rollback;
begin;
select scylla.submit('submit.prepared') is not null as submitted;
prepare transaction 'submit';
\echo :LAST_ERROR_SQLSTATE
select count(*) from scylla.tasks where queue = 'submit.prepared';
