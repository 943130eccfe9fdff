-- The map: shards, new queues, and what is refused.
select shard, weight, state from router.shard order by shard;
select scylla.about() ->> 'edition' as edition, jsonb_array_length(scylla.about() -> 'shards') as shards;
-- Nothing is made of a queue that is only looked at.
select count(*) from scylla.own_tasks('w', 'map0');
select count(*) from router.queue where queue = 'map0';
-- A new queue goes to the shard that has the fewest, and stays there though the transaction is rolled back.
begin;
select count(scylla.submit('map' || n)) from generate_series(1, 8) n;
rollback;
select queue, shard from router.queue where queue like 'map%' order by queue;
select id is not null as outlives_the_rollback from scylla.own_tasks('w', 'map1');
-- The id says where the task is.
select router.shard_of_id(scylla.submit('map3')) = shard as knows from router.queue where queue = 'map3';
-- Heavier shards get more.
select connection from router.shard where shard = 3 \gset
select router.add_shard(3, :'connection', 3);
select count(scylla.submit('heavy' || n)) from generate_series(1, 12) n;
select shard, count(*) from router.queue where queue like 'heavy%' group by shard order by shard;
select router.add_shard(3, :'connection');
-- Wrong arguments.
\set VERBOSITY terse
select router.add_shard(9, :'connection');
select router.add_shard(256, 'dbname=x');
select router.add_shard(5, 'host=localhost user=me');
select router.add_shard(5, 'postgresql://localhost/tasks');
select router.add_shard(5, null);
select router.add_shard(3, :'connection', 0);
select router.drain_shard(77);
select router.drop_shard(3);
select router.spread_queue('map1');
select router.spread_queue('');
call router.move_queue('none', 1);
call router.move_queue('map1', 77);
select router.add_shard(5, 'host=/nowhere dbname=x');
\set VERBOSITY default
\set SHOW_CONTEXT never
-- A shard that drains gets no new queue; one that has queues is not dropped.
select router.drain_shard(2) > 0 as has_queues;
select count(scylla.submit('drain' || n)) from generate_series(1, 8) n;
select count(*) from router.queue where queue like 'drain%' and shard = 2;
select router.drop_shard(2);
select connection from router.shard where shard = 2 \gset
select router.add_shard(2, :'connection');
-- Another role is itself on the shards, and administers nothing.
create role router_user login;
set role router_user;
\set VERBOSITY terse
select scylla.submit('map1');
select router.add_shard(3, 'dbname=x');
select router._about('dbname=x');
insert into router.queue values ('mine', 1);
reset role;
drop role router_user;
-- The columns of the views are those of a shard, and the shard.
select dblink_connect('columns', connection || ' user=postgres') from router.shard where shard = 0;
create temp table columns as
select table_name, column_name, ordinal_position, udt_name, true as here from information_schema.columns
where table_schema = 'scylla' and column_name <> 'shard'
union all
select c.*, false from dblink('columns', $$ select c.table_name, c.column_name, c.ordinal_position, c.udt_name
    from information_schema.columns c join information_schema.views v using (table_schema, table_name)
    where table_schema = 'scylla' $$) c (table_name text, column_name text, ordinal_position integer, udt_name text);
select count(distinct table_name) as views, count(*) filter (where here) = count(*) filter (where not here) as as_many from columns;
select table_name, column_name, ordinal_position, udt_name, min(here::text) from columns group by 1, 2, 3, 4 having count(*) <> 2;
