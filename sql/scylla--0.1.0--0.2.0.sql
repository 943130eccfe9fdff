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

select scylla.refresh();
