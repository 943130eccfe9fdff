-- The entry of a task: its members, and the columns of the view, in the contract's order.
select array_to_string(array(
    select attname from pg_attribute where attrelid = 'scylla.tasks'::regclass and attnum > 0 order by attnum), ', ') as columns;
select attname, format_type(atttypid, atttypmod) from pg_attribute
where attrelid = 'scylla.tasks'::regclass and attnum > 0 order by attnum;

select scylla.submit('entry', '{"k": 1}', id => '00000000-0000-4000-8000-000000000051') as ready;
select scylla.submit('entry', '{"k": 2}', id => '00000000-0000-4000-8000-000000000052', priority => 1) as running;
select scylla.submit('entry', '{"k": 3}', id => '00000000-0000-4000-8000-000000000053', priority => 2) as completed;
create temp table held as select * from scylla.own_tasks('w', 'entry', 2, timeout => '1 hour');
select scylla.return_task(id, token, result => '[]') from held where spec ->> 'k' = '3';
select scylla.extend(id, token, progress => 0.125) from held where spec ->> 'k' = '2';

-- All members, whatever the status, and no others.
select distinct array(select jsonb_object_keys(scylla.task(id)) order by 1) as members from scylla.tasks where queue = 'entry';
select string_agg(m.name, ', ' order by n) filter (where not scylla.task(id) ? m.name) as missing
from scylla.tasks, unnest(string_to_array('rn queue action key spec priority status progress created updated run_at deadline '
    'owner tries max_tries num_failures after errors result history', ' ')) with ordinality as m (name, n)
where queue = 'entry' group by id;

-- The view shows the same as the entry, member for member, and what an SQL task runs.
select right(t.id::text, 2) as id, v.key, v.value as in_the_view, scylla.task(t.id) -> v.key as in_the_entry
from scylla.tasks t, jsonb_each(to_jsonb(t) - '{id,role,database,command}'::text[] || jsonb_build_object('rn', t.id)) v
where queue = 'entry' and v.value is distinct from scylla.task(t.id) -> v.key
order by 1, 2;

-- Times are times, or null.
select status, (entry ->> 'created')::timestamptz <= (entry ->> 'updated')::timestamptz as created_first,
    (entry ->> 'deadline')::timestamptz > now() as deadline_ahead, entry -> 'run_at' as run_at
from (select status, scylla.task(id) as entry from scylla.tasks where queue = 'entry') as t order by status;

-- B8, B9: by id, by queue, by status, by owner; by priority as a number.
select right(id::text, 2) as id, status, progress, owner, tries, result from scylla.tasks where queue = 'entry' order by priority desc;
select right(id::text, 2) as id from scylla.tasks where queue = 'entry' and status = 'running';
select right(id::text, 2) as id from scylla.tasks where id = '00000000-0000-4000-8000-000000000053';
select right(id::text, 2) as id from scylla.tasks where queue = 'entry' and owner = 'w' and status = 'running';

-- B2: the spec and the time of creation never change; every write changes updated.
select scylla.task('00000000-0000-4000-8000-000000000052') as before \gset
select scylla.return_task(id, token, 'retry') from held where spec ->> 'k' = '2';
select key from jsonb_each(scylla.task('00000000-0000-4000-8000-000000000052'))
where value <> :'before'::jsonb -> key order by key;

-- Queries run in a read-only transaction.
begin read only;
select scylla.task('00000000-0000-4000-8000-000000000051') ->> 'status' as status;
select count(*) from scylla.tasks where queue = 'entry';
rollback;
select scylla.task('00000000-0000-4000-8000-00000000005f');
select scylla.task(null);

-- The valid leases, all or one.
select scylla.submit('entry.lease') as id \gset
select token from scylla.own_tasks('who', 'entry.lease', timeout => '100 years') \gset
select id = :'id' as same, owner, owned_at <= now() as owned, deadline, progress, recorded from scylla._leases(:'id');
select count(*) from scylla._leases() where id = :'id';
select count(*) from scylla._leases('00000000-0000-4000-8000-00000000005f');
select scylla.return_task(:'id', :'token');
select count(*) from scylla._leases(:'id');
