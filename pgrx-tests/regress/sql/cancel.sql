-- Cancelling: any caller can cancel a ready or a running task.
select scylla.submit('cancel', priority => 1) as ready \gset
select scylla.submit('cancel', priority => 2) as running \gset
select token from scylla.own_tasks('w', 'cancel', timeout => '1 hour') \gset
select scylla.extend(:'running', :'token', progress => 0.5);
select scylla.cancel(:'ready'), scylla.cancel(:'running');
select jsonb_pretty(scylla.task(:'ready') - '{rn,created,updated}'::text[]) as entry;
select jsonb_pretty(scylla.task(:'running') - '{rn,created,updated}'::text[] #- '{history,0,time}') as entry;

-- The task was already terminal.
select scylla.cancel(:'ready'), scylla.cancel(:'running');
-- No worker owns it; its own worker learns at its next call.
select count(*) from scylla.own_tasks('w', 'cancel', 10);
select scylla.extend(:'running', :'token');
\set VERBOSITY sqlstate
select scylla.return_task(:'running', :'token');
select * from scylla.own_task(:'ready', 'w');
select scylla.cancel('00000000-0000-4000-8000-00000000004f');
\set VERBOSITY default

-- A completed or aborted task is not changed.
select count(scylla.submit('cancel.settled')) from generate_series(1, 2);
create temp table held as select * from scylla.own_tasks('w', 'cancel.settled', 2) with ordinality;
select scylla.return_task(id, token) from held where ordinality = 1;
select scylla.return_task(id, token, 'aborted', error => '{"code": "", "args": {}, "description": ""}') from held where ordinality = 2;
select scylla.cancel_tasks(array_agg(id)) from held;
select status, count(*) from scylla.tasks where queue = 'cancel.settled' group by status order by status;

-- Many: one answer for each; an id that is given twice is cancelled by the first.
select scylla.submit('cancel.many') as one \gset
select scylla.submit('cancel.many') as two \gset
select scylla.cancel_tasks(array[:'one', '00000000-0000-4000-8000-00000000004f', :'ready', :'two', :'one']::uuid[]);
select scylla.cancel_tasks('{}');
select scylla.cancel_tasks(array_agg(scylla.submit('cancel.many'))) = array_fill(true, array[1000]) as all_of_them
from generate_series(1, 1000);
select status, count(*) from scylla.tasks where queue = 'cancel.many' group by status;

-- A rollback undoes the cancel: the task is ready again, or its lease is valid.
select scylla.submit('cancel.back', priority => 1) as ready \gset
select scylla.submit('cancel.back', priority => 2) as running \gset
select token from scylla.own_tasks('w', 'cancel.back', timeout => '1 hour') \gset
begin;
select scylla.cancel_tasks(array[:'ready', :'running']::uuid[]);
select scylla.cancel(:'ready');
select id in (:'ready', :'running') as mine, status from scylla.tasks where queue = 'cancel.back';
select count(*) from scylla.own_tasks('w', 'cancel.back');
rollback;
select status from scylla.tasks where queue = 'cancel.back' order by priority;
select scylla.extend(:'running', :'token');
select id = :'ready' as it from scylla.own_tasks('w', 'cancel.back', 9);

-- Submitted and cancelled in one transaction.
begin;
select scylla.submit('cancel.unborn') as id \gset
select scylla.cancel(:'id');
commit;
select status from scylla.tasks where id = :'id';
select count(*) from scylla.own_tasks('w', 'cancel.unborn');
-- The savepoint of the cancel rolled back.
begin;
select scylla.submit('cancel.unborn') as id \gset
savepoint s;
select scylla.cancel(:'id');
rollback to s;
commit;
select id = :'id' as offered from scylla.own_tasks('w', 'cancel.unborn');
