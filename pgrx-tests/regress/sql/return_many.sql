-- Returning many tasks, each with an outcome of its own.
create function ids(prefix text, many int) returns uuid[] language sql
return (select array_agg((prefix || lpad(n::text, 2, '0'))::uuid order by n) from generate_series(1, many) n);

select count(*) from unnest(scylla.submit_many('return_many', array(select to_jsonb(n) from generate_series(1, 6) n), max_tries => 2,
    ids => ids('00000000-0000-4000-8000-0000000001', 6)));
create temp table owned as select row_number() over (order by id) as n, * from scylla.own_tasks('w', 'return_many', 6);
create temp table ending (n int, outcome text, result jsonb, error jsonb, run_at timestamptz);
insert into ending values
    (6, 'completed', '{"sum": 6}', null, null), (5, 'aborted', null, '"broken"', null), (4, 'retry', null, '"later"', '2100-01-01Z'),
    (3, 'yield', null, null, '2100-01-02Z'), (2, 'yield', null, null, null), (1, 'retry', null, null, null);
select scylla.return_many(array_agg(id order by e.n desc), array_agg(token order by e.n desc), array_agg(outcome order by e.n desc),
    array_agg(result order by e.n desc), array_agg(error order by e.n desc), array_agg(run_at order by e.n desc)) as statuses
from owned join ending e using (n);
select spec, status, tries, progress, result, errors, run_at at time zone 'UTC' as run_at,
    jsonb_path_query_array(history, '$[*]._typ') as history
from scylla.tasks where queue = 'return_many' order by spec;
-- No token is valid any more.
select scylla.return_many(array_agg(id), array_agg(token), array_agg('yield'::text)) from owned;

-- A task that is named twice ends once, as it is named first.
select count(scylla.submit('return_many.twice'));
select id, token from scylla.own_tasks('w', 'return_many.twice') \gset
select scylla.return_many(array[:'id', :'id']::uuid[], array[:'token', :'token']::uuid[], '{yield,completed}');
select id, token from scylla.own_tasks('w', 'return_many.twice') \gset
select scylla.return_many(array[:'id', gen_random_uuid()]::uuid[], array[:'token', :'token']::uuid[], '{completed,aborted}',
    errors => '{null,"\"no such task\""}');

-- Nothing to return.
select scylla.return_many('{}', '{}', '{}'), scylla.return_many(null, null, null);

-- Return and own in one statement: the places that come free are there at once.
select scylla.configure_queue('return_many.limit', max_running => 2);
select count(*) from unnest(scylla.submit_many('return_many.limit', array['1', '2', '3', '4', '5']::jsonb[]));
create temp table first as select * from scylla.own_tasks('w', 'return_many.limit', 9);
select spec from first;
select o.spec
from scylla.return_many((select array_agg(id) from first), (select array_agg(token) from first), '{completed,retry}',
    run_ats => '{null,2100-01-01Z}') r
left join lateral scylla.own_tasks('w', 'return_many.limit', 9) o on true;

-- A yield may wait: one task by return_task. The try is taken back.
select scylla.submit('return_many.yield') as id \gset
select token from scylla.own_tasks('w', 'return_many.yield') \gset
select scylla.return_task(:'id', :'token', 'yield', run_at => '2100-01-01Z');
select status, tries, run_at = '2100-01-01Z' as at from scylla.tasks where id = :'id';
select count(*) from scylla.own_tasks('w', 'return_many.yield');
select scylla.delay(:'id', now());
select token, tries from scylla.own_tasks('w', 'return_many.yield') \gset
\echo :tries
-- A time that has come: ready at once.
select scylla.return_task(:'id', :'token', 'yield', run_at => now());
select token, tries from scylla.own_tasks('w', 'return_many.yield') \gset
\echo :tries

-- Bad input: an error that tells the element, and no task is returned.
\set VERBOSITY default
create function many(outcomes text[], results jsonb[] default null, errors jsonb[] default null, run_ats timestamptz[] default null)
returns void language plpgsql as $$
declare
    detail text;
begin
    perform scylla.return_many((select array_agg(id) from two), (select array_agg(token) from two), outcomes, results, errors, run_ats);
exception when others then
    get stacked diagnostics detail = pg_exception_detail;
    raise notice '% %: %', sqlstate, sqlerrm, detail;
end $$;
select count(*) from unnest(scylla.submit_many('return_many.bad', array['1', '2']::jsonb[]));
create temp table two as select * from scylla.own_tasks('w', 'return_many.bad', 2, timeout => '1 hour');
select many('{completed}'), many(null), many('{completed,null}'), many('{completed,done}'), many('{{completed},{completed}}'),
    many('{completed,aborted}'), many('{completed,yield}', '{null,1}'), many('{completed,completed}', errors => '{null,1}'),
    many('{completed,completed}', run_ats => '{null,now}'), many('{completed,aborted}', null, '{null,1}', '{null,now}'),
    many('{retry,retry}', run_ats => '{null,infinity}'), many('{completed,completed}', '{1}'),
    many('{completed,completed}', run_ats => '{}'), many(array_fill('yield'::text, array[100001]));
select count(*) from scylla.tasks where queue = 'return_many.bad' and status = 'running';
