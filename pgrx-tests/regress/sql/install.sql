-- The extension as it is installed: what belongs to it, what is said about it, who may use it.
drop extension scylla;
create extension scylla;
select extname, nspname, extrelocatable from pg_extension e join pg_namespace n on n.oid = extnamespace
where extname = 'scylla';
select superuser, trusted, relocatable, schema from pg_available_extension_versions where name = 'scylla' and installed;

-- The functions, by name and arguments.
\a
select format('%s(%s) → %s', proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) as function
from pg_proc p where pronamespace = 'scylla'::regnamespace order by proname, 1;
\a

-- Every schema object has a comment: those that lack one.
with member as (
    select classid, objid from pg_depend
    where refclassid = 'pg_extension'::regclass and deptype = 'e'
        and refobjid = (select oid from pg_extension where extname = 'scylla')
), object as (
    select classid, objid, 0 as objsubid from member
    union all
    select 'pg_class'::regclass, indexrelid, 0
    from member join pg_index on classid = 'pg_class'::regclass and indrelid = objid and not indisprimary
        join pg_class i on i.oid = indexrelid and not i.relispartition
    union all
    select classid, objid, attnum
    from member join pg_class c on classid = 'pg_class'::regclass and c.oid = objid
        and relkind in ('r', 'p') and not relispartition
        join pg_attribute on attrelid = objid and attnum > 0 and not attisdropped
)
select pg_describe_object(classid, objid, objsubid) from object o
where classid <> 'pg_type'::regclass and not exists (
    select from pg_description d
    where (d.classoid, d.objoid, d.objsubid) = (o.classid, o.objid, o.objsubid))
order by 1;

-- The comments are phrases: no capital, no full stop.
select description from pg_description join pg_depend
    on (classoid, objoid) = (classid, objid) and refclassid = 'pg_extension'::regclass
where refobjid = (select oid from pg_extension where extname = 'scylla')
    and (description ~ '^[A-Z]' or description ~ '\.$');

-- No function runs in parallel, none has its definer's rights, none a setting that would hide a
-- procedure's transaction.
select proname from pg_proc p join pg_language l on l.oid = prolang
where pronamespace = 'scylla'::regnamespace
    and (prosecdef or proconfig is not null or lanname = 'c' and (proparallel <> 'u' or provolatile <> 'v'));

-- PUBLIC may do nothing with any of it, nor may a role without rights.
select proname from pg_proc
where pronamespace = 'scylla'::regnamespace and has_function_privilege('public', oid, 'execute');
select relname from pg_class
where relnamespace = 'scylla'::regnamespace and relkind in ('r', 'p', 'v', 'S')
    and (has_table_privilege('public', oid, 'select, insert, update, delete, truncate, references, trigger')
        or has_any_column_privilege('public', oid, 'select, insert, update, references'));
select has_schema_privilege('public', 'scylla', 'usage, create');

create role regress_stranger;
grant usage on schema scylla to regress_stranger;
set role regress_stranger;
\set VERBOSITY sqlstate
select * from scylla.task;
select * from scylla.finished;
select * from scylla.lease;
select * from scylla.incarnation;
select * from scylla.dependency;
select * from scylla.countdown;
select * from scylla.tasks;
select nextval('scylla.worker_number');
insert into scylla.task select null;
delete from scylla.finished;
create table scylla.mine ();
select scylla.submit('q');
select * from scylla.submit_tasks('[]');
select * from scylla.own_tasks('w', 'q');
select * from scylla.own_task(gen_random_uuid(), 'w');
select scylla.register_worker();
select scylla.extend(gen_random_uuid(), gen_random_uuid());
select scylla.extend_tasks('{}', '{}');
select scylla.return_task(gen_random_uuid(), gen_random_uuid());
select scylla.return_tasks('{}', '{}');
select scylla.cancel(gen_random_uuid());
select scylla.cancel_tasks('{}');
select scylla.add_dependencies('{}', '{}');
select scylla.delete_tasks('{}');
select scylla.task_id('q', 'k');
select scylla.why(gen_random_uuid());
select scylla.task(gen_random_uuid());
select * from scylla.leases();
select scylla.refresh();
select scylla.open();
select scylla.newest('[]');
select scylla.history_with('[]', 'w', now());
\set VERBOSITY default
reset role;

-- Whoever may execute a function uses the tables through it, and only through it.
grant execute on function scylla.submit, scylla.own_tasks, scylla.return_task to regress_stranger;
set role regress_stranger;
select scylla.submit('install') is not null as submitted;
select id, token from scylla.own_tasks('w', 'install') \gset
select scylla.return_task(:'id', :'token');
select current_user;
\set VERBOSITY sqlstate
select count(*) from scylla.finished;
\set VERBOSITY default
reset role;

-- Neither a schema nor objects that the extension did not make.
create table scylla.stray ();
drop extension scylla;
drop table scylla.stray;
create extension scylla schema public;
create extension scylla;
alter extension scylla set schema public;

-- Gone and back: nothing is left of what was there.
select count(*) from scylla.tasks;
drop extension scylla;
select nspname from pg_namespace where nspname = 'scylla';
drop owned by regress_stranger;
drop role regress_stranger;
drop schema if exists scylla;
create extension scylla;
select scylla.register_worker();
