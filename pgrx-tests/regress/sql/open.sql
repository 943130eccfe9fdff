-- Closing a database (I12): no task is handed out, and leases remain valid.
select count(scylla.submit('open')) from generate_series(1, 4);
select id, token from scylla.own_tasks('w', 'open') \gset
-- Closed by the commit, and not before.
begin;
select scylla.open(false);
select count(*) from scylla.own_tasks('w', 'open');
rollback;
select count(*) from scylla.own_tasks('w', 'open');
select scylla.open(enabled => false);
select count(*) from scylla.own_tasks('w', 'open');
select scylla.submit('open') as later \gset
\set VERBOSITY terse
select * from scylla.own_task(:'later', 'w');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
select scylla.task(:'later') ->> 'status' as status, scylla.why(:'later');

-- The worker that owns a task extends and returns it; any caller may cancel a task.
select scylla.extend(:'id', :'token'), scylla.return_task(:'id', :'token', 'retry');
select count(*) from scylla.own_tasks('w', 'open');
select scylla.cancel(:'later');
select open from scylla.incarnation;

-- Closed twice, and opened: ready tasks are handed out at once, but to the transaction that opens
-- only after its commit.
select scylla.open(false);
begin;
select scylla.open();
select count(*) from scylla.own_tasks('w', 'open');
commit;
select id = :'id' as same, tries from scylla.own_tasks('w', 'open', 5) order by tries desc;
select scylla.open(true);
select database = d.oid as here, open, used from scylla.incarnation, pg_database d where datname = current_database();

select scylla.open(null);
begin read only;
select scylla.open();
rollback;
