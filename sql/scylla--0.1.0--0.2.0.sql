\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0.

-- Rights: a name is that of one job of a role. Of several the first keeps it.
update scylla.schedule s set job = null
where exists (
    select from scylla.schedule o
    where o.job operator(pg_catalog.=) s.job
        and o.owner::pg_catalog.oid operator(pg_catalog.=) s.owner::pg_catalog.oid
        and o.id operator(pg_catalog.<) s.id);

drop index scylla.schedule_job;
create unique index schedule_job on scylla.schedule (job, (owner::pg_catalog.oid))
where job is not null and owner::pg_catalog.oid operator(pg_catalog.<>) 0::pg_catalog.oid;
comment on index scylla.schedule_job is 'one job of the schema cron per name and role';

-- Rights: a command runs in the database that its name meant when it was given.
create type scylla.database;

create function scylla._database_in(cstring) returns scylla.database
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_in';

comment on function scylla._database_in is 'reads a database by its name; a missing one is no database';

create function scylla._database_out(scylla.database) returns cstring
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_out';

comment on function scylla._database_out is 'writes the name of a database';

create type scylla.database (
    input = scylla._database_in,
    output = scylla._database_out,
    like = pg_catalog.oid
);

comment on type scylla.database is 'a database, stored by oid and dumped by name';

create cast (scylla.database as pg_catalog.oid) without function as assignment;
create cast (pg_catalog.oid as scylla.database) without function as assignment;

comment on cast (scylla.database as pg_catalog.oid) is 'the oid of a database';
comment on cast (pg_catalog.oid as scylla.database) is 'the database of an oid';

alter table scylla.task add column database_oid scylla.database;
comment on column scylla.task.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.task t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

alter table scylla.finished add column database_oid scylla.database;
comment on column scylla.finished.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.finished t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

alter table scylla.schedule add column database_oid scylla.database;
comment on column scylla.schedule.database_oid is
    'which database had that name when it was given; null: this one';
update scylla.schedule t set database_oid = d.oid
from pg_catalog.pg_database d
where t.database is not null and d.datname operator(pg_catalog.=) t.database::pg_catalog.name;

-- Rights: who writes a command needs the rights of its role, and may become that role.
create function scylla._may_act_as(role scylla.role) returns boolean
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_may_act_as';

comment on function scylla._may_act_as is
    'whether the caller may have commands run with the rights of a role';

grant execute on function scylla._database_in, scylla._database_out, scylla._may_act_as to public;

alter table scylla.task
    drop constraint task_role,
    add constraint task_role check (command is null or scylla._may_act_as(role));
comment on constraint task_role on scylla.task is
    'a command runs as a role whose rights the writing role has';

alter table scylla.schedule
    drop constraint schedule_role,
    add constraint schedule_role check (command is null or scylla._may_act_as(owner));
comment on constraint schedule_role on scylla.schedule is
    'commands run as a role whose rights the writing role has';

alter table scylla.finished
    add constraint finished_role check (command is null or scylla._may_act_as(role));
comment on constraint finished_role on scylla.finished is
    'commands ran as a role whose rights the writing role has';

-- Rights: a function of the reader's sees no row that the view does not show.
alter view scylla.stats set (security_barrier);
alter view scylla.queues set (security_barrier);
alter view scylla.workers set (security_barrier);

-- Rights: what the creating role's default privileges gave to others is taken back. It is known by the
-- access that the extension was created with; what was granted since stays.
do $upgrade$
declare
    item record;
begin
    for item in
        select distinct case when c.relkind operator(pg_catalog.=) 'S' then 'sequence' else 'table' end as kind,
            c.oid::pg_catalog.regclass as object, r.oid::pg_catalog.regrole as grantee
        from pg_catalog.pg_init_privs i
        join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) i.objoid
        cross join lateral pg_catalog.aclexplode(i.initprivs) a
        join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.grantee
        where i.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            and c.relnamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
            and r.oid operator(pg_catalog.<>) c.relowner
    loop
        execute pg_catalog.format('revoke all on %s %s from %s', item.kind, item.object, item.grantee);
    end loop;
end
$upgrade$;

select scylla.refresh();
