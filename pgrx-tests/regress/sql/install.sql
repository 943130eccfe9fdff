-- The installed extension: its objects, their comments, and their privileges.
drop extension scylla;
create extension scylla;
select extname, nspname, extrelocatable from pg_extension e join pg_namespace n on n.oid = extnamespace
where extname = 'scylla';
select superuser, trusted, relocatable, schema from pg_available_extension_versions where name = 'scylla' and installed;

-- Every schema object has a comment: the list of those without. The scheduler has made its
-- partitions when a call can own tasks; their columns are the parent's. A call waits for it, but on a
-- slow server not long enough.
do $$ begin
    for attempt in 1..9 loop
        begin
            perform scylla.own_tasks('w', 'install');
            exit;
        exception when cannot_connect_now then
        end;
    end loop;
    for attempt in 1..300 loop
        exit when (select count(*) >= 6 from pg_inherits where inhparent = 'scylla.finished'::regclass);
        perform pg_sleep(0.1);
    end loop;
end $$;
select count(*) from scylla.own_tasks('w', 'install');
select count(*) >= 6 as partitioned from pg_inherits where inhparent = 'scylla.finished'::regclass;
create temp view object as
with relation as (
    select oid, relkind, relispartition from pg_class where relnamespace = 'scylla'::regnamespace
)
select 'pg_class'::regclass as classoid, oid as objoid, 0 as objsubid
from relation
where relkind <> 't' and not exists (select from pg_constraint where conindid = relation.oid)
union all
select 'pg_class'::regclass, attrelid, attnum
from relation join pg_attribute on attrelid = relation.oid
where relkind in ('r', 'p', 'v', 'm', 'f', 'c') and not relispartition and attnum > 0 and not attisdropped
union all
select 'pg_constraint'::regclass, oid, 0
from pg_constraint where connamespace = 'scylla'::regnamespace and contype <> 'n' and conparentid = 0
    and coninhcount = 0
union all
select 'pg_trigger'::regclass, t.oid, 0
from relation join pg_trigger t on tgrelid = relation.oid where not tgisinternal
union all
select 'pg_namespace'::regclass, oid, 0 from pg_namespace where nspname = 'scylla'
union all
select 'pg_proc'::regclass, oid, 0 from pg_proc where pronamespace = 'scylla'::regnamespace
union all
select 'pg_type'::regclass, oid, 0
from pg_type where typnamespace = 'scylla'::regnamespace and typtype in ('d', 'e', 'r');

select pg_describe_object(classoid, objoid, objsubid) as object
from object left join pg_description using (classoid, objoid, objsubid)
where description is null
order by 1;

-- The comments are phrases: no capital, no full stop.
select pg_describe_object(classoid, objoid, objsubid) as object, description
from object join pg_description using (classoid, objoid, objsubid)
where description ~ '^[A-Z]' or description ~ '\.$'
order by 1;
drop view object;

-- No function runs in parallel, none has its definer's rights, and none has a setting that would
-- hide a procedure's transaction. Only what views and types call has no effects.
select proname from pg_proc p join pg_language l on l.oid = prolang
where pronamespace = 'scylla'::regnamespace
    and (prosecdef or proconfig is not null
        or lanname = 'c' and (proparallel <> 'u' or provolatile <> 'v') and proname not like '\_%');

-- PUBLIC may execute every function and read every view, and nothing else.
select proname from pg_proc
where pronamespace = 'scylla'::regnamespace and not has_function_privilege('public', oid, 'execute');
select relname, relkind, has_table_privilege('public', oid, 'select') as select,
    has_table_privilege('public', oid, 'insert, update, delete, truncate, references, trigger')
    or has_any_column_privilege('public', oid, 'insert, update, references') as more
from pg_class
where relnamespace = 'scylla'::regnamespace and relkind in ('r', 'p', 'v', 'S')
    and (has_table_privilege('public', oid, 'select, insert, update, delete, truncate, references, trigger')
        or has_any_column_privilege('public', oid, 'select, insert, update, references'));
select has_schema_privilege('public', 'scylla', 'usage') as usage,
    has_schema_privilege('public', 'scylla', 'create') as create;

-- A role without grants.
create role regress_stranger;
set role regress_stranger;
\set VERBOSITY sqlstate
select * from scylla.task;
select * from scylla.finished;
select * from scylla.lease;
select * from scylla.incarnation;
select * from scylla.dependency;
select * from scylla.countdown;
select * from scylla.queue;
select * from scylla.privilege;
select nextval('scylla.worker_number');
select nextval('scylla.created_until');
insert into scylla.task select null;
delete from scylla.finished;
create table scylla.mine ();
\set VERBOSITY default
select scylla.submit('install');
select scylla.cancel(gen_random_uuid());
select scylla.cancel_message('install', 'm');
select scylla.open();
select scylla.grant('install', 'regress_stranger', '{submit}');
select count(*) from scylla.tasks;
select count(*) from scylla._leases();
reset role;

-- With some.
select scylla.grant('install', 'regress_stranger', '{work,submit}');
select * from scylla.privilege;
set role regress_stranger;
select scylla.submit('install') is not null as submitted;
select id, token from scylla.own_tasks('w', 'install') \gset
select scylla.return_task(:'id', :'token');
select scylla.submit('another');
select scylla.task(:'id');
select scylla.open();
select current_user;
\set VERBOSITY sqlstate
select count(*) from scylla.finished;
\set VERBOSITY default
reset role;
select scylla.revoke('install', 'regress_stranger', '{work}');
select * from scylla.privilege;
select scylla.revoke('install', 'regress_stranger', '{submit,look}');
select * from scylla.privilege;
select scylla.grant('install', 'regress_stranger', '{read}');
select scylla.grant('install', 'regress_no_such_role', '{look}');
select scylla.grant('install', 0::regrole, '{look}');

-- The extension needs its own schema, cannot be moved, and is dropped although another object was
-- in the schema.
create table scylla.stray ();
drop extension scylla;
drop table scylla.stray;
create extension scylla schema public;
create extension scylla;
alter extension scylla set schema public;

-- After it is dropped and created again, no earlier task remains.
select count(*) from scylla.tasks;
drop extension scylla;
select nspname from pg_namespace where nspname = 'scylla';
drop owned by regress_stranger;
drop role regress_stranger;
drop schema if exists scylla;
create extension scylla;
select scylla.register_worker();
