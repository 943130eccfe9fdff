-- Owning from several queues, in the order given.
select count(scylla.submit(queue, to_jsonb(n), action, n)) from (values ('own_any.a', '', 1), ('own_any.a', 'x', 2), ('own_any.b', '', 9),
    ('own_any.c', 'x', 3), ('own_any.c', '', 4), ('own_any.c', '', 5)) as v (queue, action, n);
begin;
select queue, spec from scylla.own_any('w', '{own_any.b,own_any.a,own_any.none,own_any.c}', 4);
select queue, spec from scylla.own_any('w', '{own_any.b,own_any.a,own_any.none,own_any.c}');
rollback;
begin;
select queue, spec from scylla.own_any('w', '{own_any.c,own_any.a}', 2);
rollback;
begin;
select queue, spec, action from scylla.own_any('w', '{own_any.a,own_any.b,own_any.c}', 9, '{x}');
rollback;
begin;
select queue, count(*) from scylla.own_any('w', '{own_any.a,own_any.a,own_any.c}', 2147483647, timeout => '1 hour') group by queue order by queue;
select queue, count(*), bool_and(deadline > now() + interval '50 min') as an_hour
from scylla.tasks where status = 'running' and queue like 'own_any.%' group by queue order by queue;
rollback;
-- The row is that of own_tasks.
select id, token, key, tries, num_failures, group_key, created is not null as created, max_tries, meta, queue
from scylla.own_any('w', '{own_any.b}') \gset
\echo :key :tries :num_failures :group_key :created :max_tries :meta :queue
select scylla.return_task(:'id', :'token', 'yield');

-- A pause and a limit hold in their queue.
select scylla.pause('own_any.a'), scylla.configure_queue('own_any.c', max_running => 2);
select queue, spec from scylla.own_any('w', '{own_any.a,own_any.c,own_any.b}', 9);
select queue, spec from scylla.own_any('w', '{own_any.a,own_any.c,own_any.b}', 9);
