\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- The upgrade to a version that does not exist: one change of each kind, done as a real script does it.

-- A column comes last: in a new database too.
alter table scylla.task add column rehearsed text collate "C";
comment on column scylla.task.rehearsed is 'a column of the rehearsal';

create index task_rehearsed on scylla.task (rehearsed) where rehearsed is not null;
comment on index scylla.task_rehearsed is 'an index of the rehearsal';

-- What a new object gets from 04_access.sql, an upgrade grants or revokes by name.
create table scylla.rehearsal (id bigint primary key);
comment on table scylla.rehearsal is 'a table of the rehearsal';
comment on column scylla.rehearsal.id is 'its key';
comment on constraint rehearsal_pkey on scylla.rehearsal is 'finds a row by its id';
revoke all on table scylla.rehearsal from public;
select pg_catalog.pg_extension_config_dump('scylla.rehearsal', '');

-- A grown function is dropped and created, which would forget its access list. The grants that the
-- script makes count as the extension's own, which pg_dump leaves out: what it was created with is
-- restored after them.
do $upgrade$
declare
    was pg_catalog.pg_proc;
    first_access pg_catalog.aclitem[];
    item record;
begin
    select * into was from pg_catalog.pg_proc
    where oid operator(pg_catalog.=) 'scylla.task_id(text, text)'::pg_catalog.regprocedure;
    select initprivs into first_access from pg_catalog.pg_init_privs
    where objoid operator(pg_catalog.=) was.oid
        and classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass;

    drop function scylla.task_id(text, text);
    create function scylla.task_id(queue text, key text, rehearsed boolean default false) returns uuid
    language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_task_id';
    comment on function scylla.task_id is
        'the id of a queue''s unfinished task that has a key; null when none has';

    revoke all on function scylla.task_id from public;
    for item in
        select * from pg_catalog.aclexplode(
            coalesce(was.proacl, pg_catalog.acldefault('f', was.proowner))) a
    loop
        execute pg_catalog.format('grant execute on function scylla.task_id to %s%s',
            case when item.grantee operator(pg_catalog.=) 0 then 'public'
                else item.grantee::pg_catalog.regrole::text end,
            case when item.is_grantable then ' with grant option' end);
    end loop;
    update pg_catalog.pg_init_privs set initprivs = first_access
    where objoid operator(pg_catalog.=)
            'scylla.task_id(text, text, boolean)'::pg_catalog.regprocedure
        and classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass;
end $upgrade$;

select scylla.refresh();
