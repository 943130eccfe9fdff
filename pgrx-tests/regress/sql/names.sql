-- Names: exact, case-sensitive, any letter; their lengths count in bytes.
create temp table name (n serial, name text);
insert into name (name) values
    ('names'), ('Names'), ('names '), (' names'), ('name%'), ('name_'), ('%'), ('_'), ('names\'), ('na''mes'), ('na"mes'),
    ('na;mes--'), ('näмes'), (U&'nam\0065\0301s'), (U&'nam\00e9s'), ('имя'), ('名前'), ('🦑'), (E'new\nline'), (E'tab\t'), ('null'), ('$1'),
    (repeat('q', 48)), (repeat('é', 24)), (repeat('🦑', 12));

select count(scylla.submit(name, to_jsonb(name))) from name;
-- Each queue has its one task, and no task of another queue.
select count(*), count(distinct n) as queues, bool_and(spec #>> '{}' = name) as found
from name, lateral scylla.own_tasks('w', name, 10);

-- The same for actions of one queue.
select count(scylla.submit('names.action', to_jsonb(name), name)) from name;
select count(scylla.submit('names.action', to_jsonb(name), name)) from (values (''), (repeat('a', 128)), (repeat('é', 64))) as v (name);
select count(*), bool_and(spec #>> '{}' = name and action = name) as found
from name, lateral scylla.own_tasks('w', 'names.action', 10, array[name]);
select octet_length(action) as bytes from scylla.own_tasks('w', 'names.action', 10) order by 1;

-- And for workers.
select count(scylla.submit('names.worker', to_jsonb(name))) from name;
create temp table held as select name, o.id from name, lateral scylla.own_tasks(name, 'names.worker') o;
select count(*), count(distinct id), bool_and(scylla.task(id) ->> 'owner' = name) as told,
    bool_and(scylla.task(id) #>> '{history,0,worker}' = name) as in_the_history from held;
select scylla.submit('names.long') as id \gset
select scylla.task(id) ->> 'owner' = repeat('é', 64) as whole from scylla.own_task(:'id', repeat('é', 64));

-- No name is truncated: a name that is too long is refused, with its length in bytes.
select scylla.submit(repeat('é', 24) || 'x');
\echo :LAST_ERROR_SQLSTATE
select scylla.submit(repeat('q', 49));
select scylla.submit('');
select scylla.submit('q', action => repeat('é', 64) || 'x');
select count(*) from scylla.own_tasks(repeat('é', 64) || 'x', 'q');
select count(*) from scylla.own_tasks('', 'q');
select count(*) from scylla.own_tasks('w', repeat('🦑', 12) || 'x');
select count(*) from scylla.own_tasks('w', 'q', 1, array[repeat('🦑', 32) || 'x']);

-- The same letters in JSON.
select outcome, count(*) from scylla.submit_tasks(
    (select jsonb_agg(jsonb_build_object('queue', name, 'action', name, 'spec', name)) from name))
group by outcome;
select count(*) filter (where spec #>> '{}' = name and action = name) from name, lateral scylla.own_tasks('w', name, 10);

-- The order of names is independent of any language.
select collname from pg_attribute join pg_collation c on c.oid = attcollation
where attrelid in ('scylla.task'::regclass, 'scylla.finished'::regclass, 'scylla.lease'::regclass)
    and attname in ('queue', 'action', 'key', 'status', 'owner', 'worker') group by collname;
