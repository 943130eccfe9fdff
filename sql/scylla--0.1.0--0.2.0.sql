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

comment on function scylla._database_in is 'reads a database by its name; a missing one is none';

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
comment on constraint finished_role on scylla.finished_default is
    'commands ran as a role whose rights the writing role has';

select scylla.refresh();
