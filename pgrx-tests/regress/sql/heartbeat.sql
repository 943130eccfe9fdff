-- Heartbeats: they extend leases, and say why one is lost.
create function id(n int) returns uuid language sql return ('00000000-0000-4000-8000-0000000002' || lpad(n::text, 2, '0'))::uuid;
select count(*) from unnest(scylla.submit_many('heartbeat', array(select to_jsonb(n) from generate_series(1, 7) n),
    ids => (select array_agg(id(n) order by n) from generate_series(1, 7) n)));
create temp table owned as select * from scylla.own_tasks('w', 'heartbeat', 7, timeout => '1 minute');
select b.id = o.id as same, state, b.deadline > o.deadline + interval '50 minutes' as later
from scylla.heartbeat('w', array[id(2), id(1)], (select array_agg(token order by id desc) from owned where id <= id(2)), '1 hour') b
    join owned o using (id);
-- Without a length, that with which the lease was taken; 100 years never expire.
select state, deadline - clock_timestamp() between interval '50 s' and interval '1 minute' as a_minute
from scylla.heartbeat('w', array[id(3)], (select array_agg(token) from owned where id = id(3)));
select * from scylla.heartbeat('w', array[id(3)], (select array_agg(token) from owned where id = id(3)), '100 years');

-- Why a lease is lost, in the order of the arrays.
select scylla.cancel(id(1));
select scylla.return_task(id, token) from owned where id = id(2);
select scylla.return_task(id, token, 'aborted', error => '1') from owned where id = id(3);
select scylla.delete_tasks(array[id(4)]);
select scylla.return_task(id, token, 'yield') from owned where id = id(5);
select scylla.return_task(id, token, 'retry', run_at => '2100-01-01Z') from owned where id = id(6);
select b.id, state, b.deadline is null as none
from scylla.heartbeat('w', (select array_agg(id order by id desc) from owned), (select array_agg(token order by id desc) from owned)) b;
select count(*) from scylla.own_tasks('other', 'heartbeat');
select state from scylla.heartbeat('w', array[id(5)], (select array_agg(token) from owned where id = id(5)));

-- What this transaction does to a task counts; the deadline stays when it is rolled back.
begin;
select state from scylla.heartbeat('w', array[id(7)], (select array_agg(token) from owned where id = id(7)), '2 hours');
select scylla.cancel(id(7));
select state from scylla.heartbeat('w', array[id(7)], (select array_agg(token) from owned where id = id(7)), '2 hours');
rollback;
select deadline - clock_timestamp() > interval '110 min' as extended from scylla.tasks where id = id(7);

-- Progress: of some, or of none.
select state from scylla.heartbeat('w', array[id(7)], (select array_agg(token) from owned where id = id(7)), progress => '{0.25}');
select state from scylla.heartbeat('w', array[id(7)], (select array_agg(token) from owned where id = id(7)), progress => '{null}');
select progress from scylla.tasks where id = id(7);

-- Nothing to extend: the worker lives.
select * from scylla.heartbeat('idle', '{}', '{}');
select * from scylla.heartbeat('idle', null, null, progress => null);
select worker, queue, running, last_seen > now() - interval '1 minute' as seen, next_deadline from scylla.workers where worker = 'idle';
select count(*) from scylla.own_tasks('idle', 'heartbeat');
select worker, queue from scylla.workers where worker = 'idle';
select count(*) from scylla._known_workers(now() + interval '59 s') where worker = 'idle';
select scylla.heartbeat('idler', null, null);
select count(*) from scylla._known_workers(now() + interval '59 s') where worker = 'idler';
select count(*) from scylla._known_workers(clock_timestamp() + interval '61 s') where worker = 'idler';
