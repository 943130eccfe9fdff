-- The group of a task: how it is given, where it is shown, and cancel_group.
select scylla.submit('groups', '1', group_key => 'a') as first \gset
select outcome, error from scylla.submit_tasks('[
    {"queue": "groups", "spec": 2, "group_key": "b"}, {"queue": "groups", "spec": 3, "group_key": null},
    {"queue": "groups", "spec": 4, "group_key": ""}, {"queue": "groups", "spec": 5, "group_key": 6}]', atomic => false);
select cardinality(scylla.submit_many('groups', array['6', '7']::jsonb[], group_keys => array['a', null]));
select scylla.submit_many('groups', array['8']::jsonb[], group_keys => array['a', 'b']);
select id, outcome from scylla.delay_messages('groups.messages', '[
    {"id": "fired", "deadline": "2020-01-01T00:00:00Z", "group_key": "m"},
    {"id": "waits", "deadline": "2100-01-01T00:00:00Z", "group_key": "m"},
    {"id": "none", "deadline": "2100-01-01T00:00:00Z"},
    {"id": "long", "deadline": "2100-01-01T00:00:00Z", "group_key": ""}]');
select spec, status, group_key from scylla.tasks where queue = 'groups' order by spec;
select spec ->> 'id' as id, status, group_key from scylla.tasks where queue = 'groups.messages' order by 1;

-- Workers get it, and settled tasks keep it: one by one, many at once, aborted by their tries.
select spec, group_key from scylla.own_task(:'first', 'w', timeout => '1 h');
select spec, group_key, scylla.return_task(id, token) from scylla.own_tasks('w', 'groups') ;
with owned as materialized (select * from scylla.own_tasks('w', 'groups', 9))
select scylla.return_tasks(array_agg(id), array_agg(token), 'aborted', null, array_agg('"no"'::jsonb)) from owned;
select spec, status, group_key from scylla.tasks where queue = 'groups' order by spec;
select scylla.task(:'first') ->> 'group_key' as entry;
select scylla.submit('groups', '9', group_key => 'a', max_tries => 1) as last \gset
select scylla.return_task(id, token, 'retry') from scylla.own_tasks('w', 'groups');
select status, group_key from scylla.tasks where id = :'last';
-- A resubmitted task has it, too.
select (scylla.resubmit(array[:'last'::uuid]))[1] as again \gset
select status, group_key from scylla.tasks where id = :'again';

-- cancel_group: waiting, ready and running tasks of this group of this queue.
select count(scylla.submit('groups', group_key => 'c')) from generate_series(1, 1500);
select scylla.submit('groups', group_key => 'c', run_at => '2100-01-01Z') as waits,
    scylla.submit('groups', group_key => 'd') as other, scylla.submit('groups.b', group_key => 'c') as queue \gset
select id, token from scylla.own_tasks('w', 'groups', 2, timeout => '1 h') where group_key = 'c' \gset
begin;
select scylla.cancel_group('groups', 'c');
rollback;
select scylla.cancel_group('groups', 'c');
select scylla.cancel_group('groups', 'c'), scylla.cancel_group('groups', 'unknown'), scylla.cancel_group('no such queue', 'c');
select scylla.extend(:'id', :'token') as extended;
select status, count(*) from scylla.tasks where group_key = 'c' and queue = 'groups' group by 1;
select status from scylla.tasks where id in (:'other', :'queue');
select count(*) from scylla.own_tasks('w', 'groups', 9);

-- What is refused.
\set VERBOSITY terse
select scylla.submit('groups', group_key => '');
select scylla.submit('groups', group_key => repeat('x', 257));
select scylla.submit('groups.long', group_key => repeat('x', 256)) as long \gset
select octet_length(group_key) from scylla.tasks where id = :'long';
select scylla.cancel_group('groups', '');
select scylla.cancel_group('', 'a');
\set VERBOSITY sqlstate
select scylla.cancel_group(null, 'a');
select scylla.cancel_group('groups', null);
begin read only;
select scylla.cancel_group('groups', 'a');
rollback;
