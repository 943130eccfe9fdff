-- Dependencies: which tasks wait, how an end affects dependents, and cycles. Tasks have names here;
-- ids are made of these.
create function pg_temp.id(name text) returns uuid immutable language sql return md5(name)::uuid;
create function pg_temp.ids(names text[]) returns uuid[] immutable language sql
return (select array_agg(pg_temp.id(n) order by o) from unnest(names) with ordinality u (n, o));
create function pg_temp.submit(name text, after text[] default null, on_failure text default 'abort') returns boolean language sql
return scylla.submit('dependencies', to_jsonb(name), id => pg_temp.id(name), after => pg_temp.ids(after), on_failure => on_failure) = pg_temp.id(name);
create function pg_temp.done(name text, outcome text default 'completed') returns text language sql
return (select scylla.return_task(id, token, outcome,
    error => case outcome when 'aborted' then jsonb '{"code": "c", "args": {}, "description": ""}' end)
    from scylla.own_task(pg_temp.id(name), 'w'));
create function pg_temp.add(after text[], run text[]) returns integer language sql
return scylla.add_dependencies(pg_temp.ids(after), pg_temp.ids(run));
create view pg_temp.look as
select spec #>> '{}' as task, status, num_failures as failures,
    (select string_agg(e ->> 'code', ', ') from jsonb_array_elements(errors) e) as errors
from scylla.tasks where queue = 'dependencies' order by created;
-- Between the parts: no live or settled task remains.
create procedure pg_temp.clear() language sql as
$$ select scylla.delete_tasks(array_agg(id)) from scylla.tasks where queue = 'dependencies' $$;

-- B63, B68: a chain; each task waits for the one before.
select pg_temp.submit('1'), pg_temp.submit('2', '{1}'), pg_temp.submit('3', '{2}');
table pg_temp.look;
\set VERBOSITY sqlstate
select pg_temp.done('2');
\set VERBOSITY default
select pg_temp.done('1');
select spec, num_failures from scylla.own_tasks('w', 'dependencies', 9);
-- A cancel of a running task aborts its dependents.
select scylla.cancel(pg_temp.id('2'));
table pg_temp.look;
select jsonb_pretty(scylla.task(pg_temp.id('3')) -> 'errors') = jsonb_pretty(jsonb_build_array(jsonb_build_object(
    'code', 'dependency_aborted', 'args', jsonb_build_object('task', pg_temp.id('2')),
    'description', 'a task that it waits for was aborted or cancelled'))) as told;
select scylla.task(pg_temp.id('3')) -> 'after' = jsonb_build_array(pg_temp.id('2')) as after;
call pg_temp.clear();

-- B68: a chord: many tasks after one, and one after all of these.
select pg_temp.submit('head'), pg_temp.submit('a', '{head}'), pg_temp.submit('b', '{head}'), pg_temp.submit('tail', '{a,b}');
select pg_temp.done('head');
select pg_temp.done('b'), scylla.why(pg_temp.id('tail')) = format('waits for 1 of 2 tasks, the oldest %s', pg_temp.id('a')) as why;
table pg_temp.look;
select pg_temp.done('a');
table pg_temp.look;
call pg_temp.clear();

-- B67: an abort aborts all direct and indirect dependents; B66: a dependent that runs after a
-- failure counts it.
select pg_temp.submit('root'), pg_temp.submit('left', '{root}'), pg_temp.submit('right', '{root}'),
    pg_temp.submit('leaf', '{left,right}'), pg_temp.submit('report', '{left,right,leaf}', 'run'), pg_temp.submit('last', '{report}');
select pg_temp.done('root', 'aborted');
table pg_temp.look;
select num_failures from scylla.own_tasks('w', 'dependencies', 9);
call pg_temp.clear();
-- One predecessor failed, the other is still waited for.
select pg_temp.submit('a'), pg_temp.submit('b'), pg_temp.submit('report', '{a,b}', 'run');
select scylla.cancel(pg_temp.id('a'));
table pg_temp.look;
select pg_temp.done('b');
table pg_temp.look;
call pg_temp.clear();
-- A task that is aborted since one predecessor failed does not wait for the other, and does not
-- delay that one's end.
select pg_temp.submit('a'), pg_temp.submit('b'), pg_temp.submit('c', '{a,b}');
select pg_temp.done('a', 'aborted'), pg_temp.done('b');
table pg_temp.look;
select count(*) from scylla.dependency d join scylla.task t on t.id = d.task where t.queue = 'dependencies';
call pg_temp.clear();

-- A predecessor that is settled or absent when it is named counts as one that settles just now.
select pg_temp.submit('done'), pg_temp.submit('failed'), pg_temp.submit('live');
select pg_temp.done('done'), scylla.cancel(pg_temp.id('failed'));
select pg_temp.submit('1', '{done,absent}'), pg_temp.submit('2', '{done,failed}'), pg_temp.submit('3', '{done,failed}', 'run'),
    pg_temp.submit('4', '{live,failed,absent}', 'run'), pg_temp.submit('5', '{live,failed}'), pg_temp.submit('6', '{}');
table pg_temp.look;
select scylla.why(pg_temp.id('4')) = format('waits for 1 of 3 tasks, the oldest %s', pg_temp.id('live')) as why;
select pg_temp.done('live');
select status, failures from pg_temp.look where task = '4';
call pg_temp.clear();

-- A predecessor named twice is waited for once.
select pg_temp.submit('1'), pg_temp.submit('2', '{1,1}');
select pg_temp.done('1');
table pg_temp.look;
call pg_temp.clear();

-- In one array, in any order.
select outcome, error from scylla.submit_tasks(jsonb_build_array(
    jsonb_build_object('queue', 'dependencies', 'spec', 'third', 'id', pg_temp.id('third'), 'after', array[pg_temp.id('second'), pg_temp.id('first')]),
    jsonb_build_object('queue', 'dependencies', 'spec', 'second', 'id', pg_temp.id('second'), 'after', array[pg_temp.id('first')]),
    jsonb_build_object('queue', 'dependencies', 'spec', 'first', 'id', pg_temp.id('first'))));
table pg_temp.look;
select pg_temp.done('first'), pg_temp.done('second'), pg_temp.done('third');
call pg_temp.clear();
-- B70: the tasks of a cycle and their dependents are invalid; so is a task that depends on itself.
select error, outcome from scylla.submit_tasks(jsonb_build_array(
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('a'), 'after', array[pg_temp.id('b')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('b'), 'after', array[pg_temp.id('c')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('c'), 'after', array[pg_temp.id('a')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('d'), 'after', array[pg_temp.id('a')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('e'), 'after', array[pg_temp.id('e')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('f'), 'spec', 'f')), false) with ordinality order by ordinality;
select pg_temp.submit('f', '{f}');
table pg_temp.look;
call pg_temp.clear();
-- A task that is not inserted is not waited for.
select outcome from scylla.submit_tasks(jsonb_build_array(
    jsonb_build_object('queue', 'dependencies', 'spec', 'f', 'id', pg_temp.id('f'), 'after', array[pg_temp.id('bad')]),
    jsonb_build_object('queue', 'dependencies', 'spec', 'bad', 'id', pg_temp.id('bad'), 'priority', -1)), false);
table pg_temp.look;
call pg_temp.clear();

-- B69: add_dependencies, pairwise; the number of new edges.
select pg_temp.submit('a'), pg_temp.submit('b'), pg_temp.submit('c'), pg_temp.submit('d', '{a}');
select pg_temp.add('{a,b,a}', '{b,c,c}'), pg_temp.add('{a,a}', '{b,d}') as again, pg_temp.add('{a,a}', '{c,c}') as twice;
table pg_temp.look;
select spec from scylla.own_tasks('w', 'dependencies', 9);
select pg_temp.add('{c}', '{a}');
\echo :LAST_ERROR_SQLSTATE
call pg_temp.clear();
select scylla.add_dependencies('{}', '{}');
-- Absent, completed: none. A task without unsettled predecessors can be owned, though it was not
-- ready meanwhile.
select pg_temp.submit('done'), pg_temp.submit('failed'), pg_temp.submit('1'), pg_temp.submit('2'), pg_temp.submit('3', null, 'run');
select pg_temp.done('done'), pg_temp.done('failed', 'aborted');
begin;
select pg_temp.add('{done,absent}', '{1,1}');
select pg_temp.add('{done,absent}', '{1,1}');
commit;
select spec from scylla.own_tasks('w', 'dependencies', 1);
-- Aborted: on_failure applies, at once; not twice.
select pg_temp.add('{failed,failed}', '{2,3}'), pg_temp.add('{failed}', '{3}');
table pg_temp.look;
call pg_temp.clear();
-- on_failure is kept for predecessors that are added later, whatever other arguments the submission
-- has.
select pg_temp.submit('a'), scylla.submit('dependencies', '"later"', on_failure => 'run') as later \gset
select scylla.add_dependencies(array[pg_temp.id('a')], array[:'later'::uuid]), pg_temp.done('a', 'aborted');
table pg_temp.look;
call pg_temp.clear();
-- Cycles, of any length: no edge is added.
select pg_temp.submit('a'), pg_temp.submit('b', '{a}'), pg_temp.submit('c', '{b}'), pg_temp.submit('d');
\set VERBOSITY sqlstate
select pg_temp.add('{c}', '{a}');
select pg_temp.add('{b}', '{a}');
select pg_temp.add('{d}', '{d}');
select pg_temp.add('{c,d}', '{d,a}');
\set VERBOSITY default
-- The error names the cycle, of any length, also for a task that depends on it.
select pg_temp.add('{c}', '{a}');
select from scylla.submit_tasks(jsonb_build_array(
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('behind'), 'after', array[pg_temp.id('x')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('x'), 'after', array[pg_temp.id('y')]),
    jsonb_build_object('queue', 'dependencies', 'id', pg_temp.id('y'), 'after', array[pg_temp.id('x')])));
select from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object(
        'queue', 'dependencies', 'id', pg_temp.id('n' || n), 'after', array[pg_temp.id('n' || n % 14 + 1)]) order by n)
    from generate_series(1, 14) n));
select count(*) from scylla.dependency d join scylla.task t on t.id = d.task where t.queue = 'dependencies';
select pg_temp.add('{d}', '{a}');
select pg_temp.done('d'), pg_temp.done('a'), pg_temp.done('b'), pg_temp.done('c');
call pg_temp.clear();

-- A rollback leaves no trace, also to a savepoint.
select pg_temp.submit('a'), pg_temp.submit('b');
begin;
select pg_temp.add('{a}', '{b}');
select pg_temp.submit('c', '{a}');
select spec from scylla.own_tasks('w', 'dependencies', 9);
rollback;
table pg_temp.look;
begin;
savepoint s;
select pg_temp.add('{a}', '{b}');
rollback to s;
commit;
begin;
select pg_temp.done('a', 'aborted');
rollback;
select pg_temp.add('{a}', '{b}');
begin;
select pg_temp.done('a', 'aborted');
rollback;
table pg_temp.look;
select pg_temp.done('a'), pg_temp.done('b');
call pg_temp.clear();
-- All in one transaction, its own tasks included.
begin;
select pg_temp.submit('a'), pg_temp.submit('b', '{a}'), pg_temp.submit('c');
select pg_temp.add('{b}', '{c}');
select scylla.cancel(pg_temp.id('a'));
commit;
table pg_temp.look;
call pg_temp.clear();

-- A retry, a yield and an expiry do not settle a task; the last try does.
select scylla.submit('dependencies', '"once"', id => pg_temp.id('once'), max_tries => 1), pg_temp.submit('next', '{once}') \gset
select pg_temp.done('once', 'yield');
select status from pg_temp.look where task = 'next';
select pg_temp.done('once', 'retry');
table pg_temp.look;
call pg_temp.clear();

-- B73: very many tasks before one; exactly one dependent becomes ready.
select count(*) from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'dependencies.many', 'id', pg_temp.id('many' || n))) from generate_series(1, 10000) n));
select scylla.submit('dependencies', '"one"', id => pg_temp.id('one'), after => array_agg(id)) = pg_temp.id('one') as submitted
from scylla.task where queue = 'dependencies.many';
select scylla.why(pg_temp.id('one')) like 'waits for 10000 of 10000 tasks, the oldest %' as why;
with mine as materialized (select id, token from scylla.own_tasks('w', 'dependencies.many', 20000))
select array_length(scylla.return_tasks(array_agg(id), array_agg(token)), 1) from mine;
table pg_temp.look;
select count(*) from scylla.own_tasks('w', 'dependencies', 9);
select count(*) from scylla.dependency d join scylla.task t on t.id = d.task where t.queue = 'dependencies';
call pg_temp.clear();

-- The text of why for each status.
select pg_temp.submit('a'), scylla.why(pg_temp.id('a'));
select id, token from scylla.own_tasks('worker "one"', 'dependencies', timeout => '1 hour') \gset
select scylla.why(pg_temp.id('a'));
select scylla.return_task(:'id', :'token'), scylla.why(pg_temp.id('a'));
