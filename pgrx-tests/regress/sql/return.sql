-- Returning: how a worker ends its ownership.
create function entry(task uuid) returns setof jsonb language sql
return scylla.task(task) - '{rn,queue,action,key,spec,created,updated,run_at,after,history,priority}'::text[];
create function events(task uuid) returns setof jsonb language sql
return jsonb_path_query_array(scylla.task(task), '$.history[*]')
    #- '{0,time}' #- '{1,time}' #- '{2,time}' #- '{3,time}' #- '{4,time}' #- '{5,time}';

-- Completed: progress 1; the result and the owner are kept.
select scylla.submit('return', id => '00000000-0000-4000-8000-000000000081') as id \gset
select token from scylla.own_tasks('w', 'return') \gset
select scylla.extend(:'id', :'token', progress => 0.25);
select scylla.return_task(:'id', :'token', result => '{"sum": 3}');
select entry(:'id');
select events(:'id');
select scylla.task(:'id') ->> 'updated' > scylla.task(:'id') ->> 'created' as written;
-- It is final.
select scylla.return_task(:'id', :'token');
select scylla.extend(:'id', :'token');
select scylla.cancel(:'id');
-- JSON null is a result like any other; no result is NULL.
select scylla.submit('return', id => '00000000-0000-4000-8000-000000000082') as id \gset
select token from scylla.own_tasks('w', 'return') \gset
select scylla.return_task(:'id', :'token', 'completed', 'null');
select scylla.task(:'id') -> 'result' as result;

-- Aborted: the error is appended, the progress kept.
select scylla.submit('return', max_tries => 9, id => '00000000-0000-4000-8000-000000000083') as id \gset
select token from scylla.own_tasks('w', 'return') \gset
select scylla.extend(:'id', :'token', progress => 0.25);
select scylla.return_task(:'id', :'token', 'aborted');
select scylla.return_task(:'id', :'token', 'aborted', '1', '{"code": "c", "args": {}, "description": "d"}');
select scylla.return_task(:'id', :'token', 'aborted', error => '{"code": "c", "args": {"a": [1]}, "description": "d"}');
select entry(:'id');
select events(:'id');
select scylla.return_task(:'id', :'token', 'retry');

-- Any JSON is accepted as an error.
select count(scylla.submit('return.error', max_tries => 1)) from generate_series(1, 9);
select scylla.return_tasks(array_agg(id), array_agg(token), 'aborted', errors => array_agg(error))
from (select row_number() over () as n, * from scylla.own_tasks('w', 'return.error', 9)) as owned
join (values (1, jsonb '"text"'), (2, '1.0'), (3, 'true'), (4, '[1, 2]'), (5, '{}'), (6, '{"code": "c", "more": null}'),
    (7, '{"code": 1, "args": [], "description": {}}'), (8, '{"args": {"a": 1}, "description": "d"}'),
    (9, '{"code": "c", "args": {}, "description": "d"}')) as v (n, error) using (n);
select errors from scylla.tasks where queue = 'return.error' order by created;

-- Retry: ready again, the try counted, the error, if any, appended.
select scylla.submit('return', max_tries => 3, id => '00000000-0000-4000-8000-000000000084') as id \gset
select token from scylla.own_tasks('w1', 'return') \gset
select scylla.extend(:'id', :'token', progress => 0.5);
select scylla.return_task(:'id', :'token', 'retry', error => '{"code": "first", "args": {}, "description": ""}');
select entry(:'id');
select scylla.return_task(:'id', :'token');
select token, tries from scylla.own_tasks('w2', 'return') \gset
\echo :tries
select scylla.return_task(:'id', :'token', 'retry');
-- A retry of the last try aborts the task.
select token, tries from scylla.own_tasks('w3', 'return') \gset
\echo :tries
select scylla.return_task(:'id', :'token', 'retry', error => '{"code": "third", "args": {}, "description": ""}');
select entry(:'id') - 'errors';
select jsonb_array_elements(scylla.task(:'id') -> 'errors') as error;
select events(:'id');

-- Yield: ready again, the try not counted, however often.
select scylla.submit('return', max_tries => 1, id => '00000000-0000-4000-8000-000000000085') as id \gset
select token from scylla.own_tasks('w1', 'return') \gset
select scylla.extend(:'id', :'token', progress => 0.75);
select scylla.return_task(:'id', :'token', 'yield');
select entry(:'id');
select events(:'id');
select token, tries from scylla.own_tasks('w2', 'return') \gset
\echo :tries
select scylla.return_task(:'id', :'token', 'yield');
select token, tries from scylla.own_tasks('w3', 'return') \gset
\echo :tries
select scylla.return_task(:'id', :'token', 'retry');
select scylla.task(:'id') ->> 'status' as status, scylla.task(:'id') -> 'tries' as tries,
    jsonb_path_query_array(scylla.task(:'id'), '$.history[*]._typ') as history;

-- A returned task keeps its place: by priority, then by age.
select count(scylla.submit('return.order', to_jsonb(n))) from generate_series(1, 3) n;
select id, token from scylla.own_tasks('w', 'return.order') \gset
select scylla.return_task(:'id', :'token', 'retry');
select spec, tries from scylla.own_tasks('w', 'return.order', 3);

-- Many: the status of each, null where the token is invalid.
select count(scylla.submit('return.many', to_jsonb(n), max_tries => case when n = 2 then 1 end)) from generate_series(1, 6) n;
create temp table held as select *, spec::int as n from scylla.own_tasks('w', 'return.many', 6, timeout => '1 hour');
select scylla.cancel(id) from held where n = 3;
select scylla.return_tasks(array_agg(id order by n), array_agg(token order by n), 'retry') from held where n < 4;
select scylla.return_tasks(array_agg(id order by n desc), array_agg(token order by n desc),
    results => array[jsonb '"six"', null, '"four"', '"three"']) from held where n > 2;
select spec, status, tries, result from scylla.tasks where queue = 'return.many' order by spec;
-- The same task twice: the first return counts.
select scylla.return_tasks(array[id, id], array[token, token]) from scylla.own_tasks('w', 'return.many');
select scylla.return_tasks('{}', '{}');
-- A null array counts as an empty one.
select scylla.return_tasks(array_agg(id), array_agg(token)) from scylla.own_tasks('w', 'return.none');
select scylla.extend_tasks(null, null), scylla.cancel_tasks(null), scylla.add_dependencies(null, null), scylla.delete_tasks(null);
select count(scylla.submit('return.aborted')) from generate_series(1, 2);
select scylla.return_tasks(array_agg(id), array_agg(token), 'aborted',
    errors => array_agg(jsonb_build_object('code', ordinality::text, 'args', '{}'::jsonb, 'description', '')))
from scylla.own_tasks('w', 'return.aborted', 10) with ordinality;
select errors from scylla.tasks where queue = 'return.aborted' order by created;

-- A rollback undoes the return: the lease is valid again.
select scylla.submit('return.back', id => '00000000-0000-4000-8000-000000000086') as id \gset
select token from scylla.own_tasks('w', 'return.back', timeout => '1 hour') \gset
begin;
select scylla.return_task(:'id', :'token');
select scylla.return_task(:'id', :'token');
rollback;
begin;
savepoint s;
select scylla.return_task(:'id', :'token', 'yield');
rollback to s;
select scylla.task(:'id') ->> 'status' as status;
select scylla.return_task(:'id', :'token', result => '1');
commit;
select scylla.task(:'id') ->> 'status' as status, events(:'id');

-- A worker that is late, while no other worker has owned the task.
select scylla.submit('return.late', id => '00000000-0000-4000-8000-000000000087') as id \gset
select token from scylla.own_tasks('w', 'return.late', timeout => '1 ms') \gset
create procedure wait_for_expiry(task uuid) language plpgsql as $$
begin
    while scylla.task(task) ->> 'status' <> 'ready' loop
        perform pg_sleep(0.01);
    end loop;
end $$;
call wait_for_expiry(:'id');
select scylla.return_task(:'id', :'token');
select entry(:'id');
select events(:'id');

-- Returned, deleted from the live tasks, inserted into the finished ones.
select (select count(*) from scylla.task where id = :'id') as live, (select count(*) from scylla.finished where id = :'id') as settled;
drop function entry, events;
drop procedure wait_for_expiry;
