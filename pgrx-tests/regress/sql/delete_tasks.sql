-- Deleting (B72): tasks are deleted together with the dependents that have nothing left to wait
-- for.
create function pg_temp.id(name text) returns uuid immutable language sql return md5('delete' || name)::uuid;
create function pg_temp.ids(names text[]) returns uuid[] immutable language sql
return (select array_agg(pg_temp.id(n) order by o) from unnest(names) with ordinality u (n, o));
create function pg_temp.submit(name text, after text[] default null) returns boolean language sql
return scylla.submit('delete', to_jsonb(name), id => pg_temp.id(name), after => pg_temp.ids(after)) = pg_temp.id(name);
create function pg_temp.done(name text) returns text language sql
return (select scylla.return_task(id, token) from scylla.own_task(pg_temp.id(name), 'w'));
create view pg_temp.look as
select spec #>> '{}' as task, status from scylla.tasks where queue = 'delete' order by created;

-- A chain is deleted whole.
select pg_temp.submit('1'), pg_temp.submit('2', '{1}'), pg_temp.submit('3', '{2}'), pg_temp.submit('4', '{3}');
select scylla.delete_tasks(pg_temp.ids('{1}'));
table pg_temp.look;
-- From its middle on.
select pg_temp.submit('1'), pg_temp.submit('2', '{1}'), pg_temp.submit('3', '{2}'), pg_temp.submit('4', '{3}');
select scylla.delete_tasks(pg_temp.ids('{3}'));
table pg_temp.look;
select pg_temp.done('1'), pg_temp.done('2');
select scylla.delete_tasks(pg_temp.ids('{1,2}'));

-- Of several predecessors: only dependents with nothing left to wait for.
select pg_temp.submit('root 1'), pg_temp.submit('root 2'), pg_temp.submit('of 1', '{root 1}'),
    pg_temp.submit('of both', '{root 1,root 2}'), pg_temp.submit('of of both', '{of both}');
select scylla.delete_tasks(pg_temp.ids('{root 1}'));
table pg_temp.look;
select pg_temp.done('root 2'), pg_temp.done('of both'), pg_temp.done('of of both');
table pg_temp.look;
select scylla.delete_tasks(array_agg(id)) from scylla.tasks where queue = 'delete';
-- Both at once.
select pg_temp.submit('root 1'), pg_temp.submit('root 2'), pg_temp.submit('of both', '{root 1,root 2}');
select scylla.delete_tasks(pg_temp.ids('{root 2,root 1}'));
table pg_temp.look;

-- A tree is deleted whole.
select pg_temp.submit('root'), pg_temp.submit('a', '{root}'), pg_temp.submit('b', '{root}'), pg_temp.submit('a1', '{a}'),
    pg_temp.submit('a2', '{a}'), pg_temp.submit('b1', '{b}'), pg_temp.submit('ab', '{a,b}');
select scylla.delete_tasks(pg_temp.ids('{root}'));
table pg_temp.look;
select count(*) from scylla.dependency d join scylla.task t on t.id = d.task where t.queue = 'delete';

-- Dependents of a completed task are not deleted.
select pg_temp.submit('1'), pg_temp.submit('2', '{1}'), pg_temp.submit('3', '{2}');
select pg_temp.done('1');
select scylla.delete_tasks(pg_temp.ids('{1}'));
table pg_temp.look;
select scylla.delete_tasks(pg_temp.ids('{2}'));

-- Deleting a completed task deletes no dependent that still waits for others.
select pg_temp.submit('done'), pg_temp.submit('live'), pg_temp.submit('of both', '{done,live}'), pg_temp.submit('end', '{of both}');
select pg_temp.done('done');
select scylla.delete_tasks(pg_temp.ids('{done}'));
table pg_temp.look;
select pg_temp.done('live'), pg_temp.done('of both'), pg_temp.done('end');
select scylla.delete_tasks(pg_temp.ids('{live,of both,end}'));
table pg_temp.look;

-- None of these is aborted, nor is a dependent whose other predecessors were deleted.
select pg_temp.submit('a'), pg_temp.submit('b'), pg_temp.submit('of both', '{a,b}');
select scylla.delete_tasks(pg_temp.ids('{a}')), pg_temp.done('b');
select status, num_failures, errors from scylla.tasks where queue = 'delete' order by created desc limit 1;
select scylla.delete_tasks(array_agg(id)) from scylla.tasks where queue = 'delete';

-- The worker of a running task learns of it as with a cancel.
select pg_temp.submit('running'), pg_temp.submit('next', '{running}');
select id, token from scylla.own_tasks('w', 'delete', timeout => '1 hour') \gset
select scylla.delete_tasks(array[:'id']::uuid[]);
select scylla.extend(:'id', :'token');
\set VERBOSITY sqlstate
select scylla.return_task(:'id', :'token');
\set VERBOSITY default
select count(*) from scylla._leases(:'id');

-- Absent ids, ids given twice; an id and a key are free again.
select scylla.delete_tasks('{}'), scylla.delete_tasks(pg_temp.ids('{absent}'));
select scylla.submit('delete', '"keyed"', key => 'k', id => pg_temp.id('keyed')) is not null as submitted;
select scylla.delete_tasks(pg_temp.ids('{keyed,absent,keyed}'));
select scylla.submit('delete', '"keyed"', key => 'k', id => pg_temp.id('keyed')) is not null as submitted;

-- A rollback restores all.
begin;
select scylla.delete_tasks(pg_temp.ids('{keyed}'));
rollback;
select pg_temp.submit('next', '{keyed}');
begin;
select scylla.delete_tasks(pg_temp.ids('{keyed}'));
table pg_temp.look;
rollback;
table pg_temp.look;
select pg_temp.done('keyed'), pg_temp.done('next');
select scylla.delete_tasks(pg_temp.ids('{keyed,next}'));
-- Submitted and deleted in one transaction.
begin;
select pg_temp.submit('a'), pg_temp.submit('b', '{a}');
select scylla.delete_tasks(pg_temp.ids('{a}'));
commit;
table pg_temp.look;
select count(*) from scylla.own_tasks('w', 'delete', 9);

-- Very many.
select count(*) from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'delete', 'id', pg_temp.id('n' || n),
        'after', case when n > 1 then array[pg_temp.id('n' || n / 2)] else '{}' end)) from generate_series(1, 5000) n));
select scylla.delete_tasks(pg_temp.ids('{n2}')), scylla.delete_tasks(pg_temp.ids('{n1}'));
select count(*) from scylla.tasks where queue = 'delete';
