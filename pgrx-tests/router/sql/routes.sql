-- Each call reaches the shard that has the task.
\set SHOW_CONTEXT never
select router.spread_queue('wide');
select count(scylla.submit('wide')) from generate_series(1, 200);
select count(*) = 4 as on_each, sum(ready) from scylla.queues where queue = 'wide' and ready > 20;
-- By the ids, over all shards, in their order.
create temp table lease as select row_number() over () as n, o.* from scylla.own_tasks('w', 'wide', 150) o;
select count(*), count(distinct router.shard_of_id(id)) > 1 as several from lease;
select array_agg(id order by n) as ids, array_agg(token order by n) as tokens from lease \gset
select count(*) filter (where extended) from unnest(scylla.extend_tasks(:'ids', :'tokens', '1 minute')) extended;
select state, count(*) from scylla.heartbeat('w', :'ids', :'tokens') group by state;
select (select array_agg(h.id order by ordinality) from scylla.heartbeat('w', :'ids', :'tokens') with ordinality h) = :'ids' as in_order;
select count(*) > 1 as several from scylla.workers where worker = 'w' and running > 0;
select status, count(*) from unnest(scylla.return_tasks((:'ids'::uuid[])[:50], (:'tokens'::uuid[])[:50])) status group by status;
select scylla.return_tasks(array[(:'ids'::uuid[])[1], (:'ids'::uuid[])[51]], array[gen_random_uuid(), (:'tokens'::uuid[])[51]]);
select scylla.return_many((:'ids'::uuid[])[52:53], (:'tokens'::uuid[])[52:53], '{completed,aborted}', errors => array[null, '"no"']::jsonb[]);
select status, count(*) from unnest(:'ids'::uuid[]) i, lateral (select scylla.task(i) ->> 'status' as status) t group by status order by status;
select count(*) filter (where cancelled) from unnest(scylla.cancel_tasks((:'ids'::uuid[])[54:150])) cancelled;
select scylla.resubmit(array[(:'ids'::uuid[])[1], (:'ids'::uuid[])[54]]) is not null as resubmitted;
select count(*) from scylla.list_tasks('{"queue": "wide", "status": "ready"}', max_tasks => 500);
-- Pages follow one another.
with recursive page as (
    select 1 as n, array(select id from scylla.list_tasks('{"queue": "wide"}', null, 40)) as ids
    union all
    select n + 1, array(select id from scylla.list_tasks('{"queue": "wide"}', ids[40], 40)) from page where cardinality(ids) = 40
)
select count(distinct id), count(*) from page, unnest(ids) id;
select scylla.cancel_matching('{"queue": "wide"}', dry_run => true) as live, scylla.cancel_matching('{"queue": "wide"}', 30) as some;
select scylla.cancel_matching('{"queue": "wide"}') > 10 as the_others;
-- An id of the caller's may have any last byte: the others are asked.
select q.shard, (q.shard + 1) % 4 as other from router.queue q where q.queue = 'map1' \gset
select ('01900000-0000-7000-8000-0000000000' || lpad(to_hex(:other), 2, '0'))::uuid as given \gset
select scylla.submit('map1', id => :'given', priority => 9) = :'given' as taken;
select router.shard_of_id(:'given') = :other as misleads, router.locate(array[:'given'::uuid]) = array[:shard]::smallint[] as found;
select scylla.why(:'given') is not null as why;
select token from scylla.own_task(:'given', 'w') \gset
select scylla.extend(:'given', :'token'), scylla.extend_tasks(array[:'given'::uuid], array[:'token'::uuid]);
select state from scylla.heartbeat('w', array[:'given'::uuid], array[:'token'::uuid]);
select scylla.return_tasks(array[:'given'::uuid], array[:'token'::uuid]);
select scylla.cancel(:'given');
-- What no shard has.
\set VERBOSITY sqlstate
select scylla.cancel('00000000-0000-7000-8000-000000000001'), scylla.cancel_tasks('{00000000-0000-7000-8000-000000000001}');
select scylla.task('00000000-0000-7000-8000-000000000001');
select scylla.return_task('00000000-0000-7000-8000-000000000001', gen_random_uuid());
select scylla.extend('00000000-0000-7000-8000-000000000001', gen_random_uuid());
\set VERBOSITY default
-- Groups of a spread queue stay together; keys and several groups in one atomic call are refused.
select count(distinct router.shard_of_id(scylla.submit('wide', group_key => 'g'))) from generate_series(1, 20);
select count(distinct router.shard_of_id(id)) from unnest(scylla.submit_many('wide', array_fill('{}'::jsonb, '{20}'))) id;
select scylla.submit('wide', key => 'k');
\set VERBOSITY terse
select scylla.submit_many('wide', '{"{}","{}","{}","{}","{}","{}"}', group_keys => '{a,b,c,d,e,f}');
-- An array over several shards, with elements that a shard refuses.
select scylla.submit_tasks('[{"queue": "map1"}, {"queue": "map2"}]');
select outcome, error from scylla.submit_tasks('[{"queue": "map1"}, {"queue": "map2", "priority": -1}, {"queue": "map3", "id": "01900000-0000-7000-8000-0000000000aa"}, {"queue": "map3", "id": "01900000-0000-7000-8000-0000000000aa"}, {"queue": "wide", "key": "k"}, {"no": 1}]', atomic => false);
-- Tasks of other shards cannot be waited for.
select scylla.submit('map1') as first \gset
select scylla.submit('map1', after => array[:'first'::uuid]) is not null as same_shard;
select scylla.submit('map2', after => array[:'first'::uuid]);
select scylla.add_dependencies(array[:'first'::uuid], array[scylla.submit('map2')]);
select scylla.submit('wide', after => array[scylla.submit('wide')]) is not null as follows_it;
-- What is not routed.
select scylla.run_sql('select 1');
select scylla.enable_cron_api();
select scylla.delay('m', now(), 'wide', 'v');
-- Errors are those of the shard.
select scylla.submit('map1', key => 'k') is not null as keyed;
do $$
declare name text;
begin
    perform scylla.submit('map1', key => 'k');
exception when unique_violation then
    get stacked diagnostics name = constraint_name;
    raise notice '% of %: %', sqlstate, name, regexp_replace(sqlerrm, '[0-9a-f-]{36}', 'ID');
end $$;
-- One schedule of a name over all shards.
select scylla.schedule('s', 'every 1 h', 'map1') > 0, scylla.schedule('s', 'every 1 h', 'map2') > 0;
select queue, shard = (select shard from router.queue where queue = 'map2') as there from scylla.schedules;
select scylla.alter_schedule('s', active => false);
\set VERBOSITY terse
select scylla.alter_schedule('s', queue => 'map1');
select active from scylla.schedules;
select scylla.unschedule('s'), scylla.unschedule('s');
-- Workers have names that none had before.
select count(distinct scylla.register_worker('{"host": "h"}')) from generate_series(1, 3);
-- Queues.
select scylla.pause('map0');
select scylla.configure_queue('wide', max_ready => 1000);
select count(*) from scylla.queues where queue = 'wide' and max_ready = 1000;
select scylla.drop_queue('map8'), scylla.drop_queue('map8');
select count(*) from router.queue where queue = 'map8';
