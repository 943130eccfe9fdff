-- Tables are closed to all roles but the owner. Anyone may call functions and read views: each call
-- checks what the caller may do, and each view shows what the caller may look at.
-- What the creating role's default privileges gave to others is taken back first.
do $access$
declare
    item record;
begin
    for item in
        select distinct pg_catalog.format('%s scylla.%I',
                case when c.relkind operator(pg_catalog.=) 'S' then 'sequence' else 'table' end, c.relname) as object,
            a.grantee::pg_catalog.regrole as grantee
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.relnamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
            and c.relkind operator(pg_catalog.=) any ('{r,p,v,S}')
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) c.relowner
        union
        select pg_catalog.format('routine %s', p.oid::pg_catalog.regprocedure),
            a.grantee::pg_catalog.regrole
        from pg_catalog.pg_proc p
        cross join lateral pg_catalog.aclexplode(p.proacl) a
        where p.pronamespace operator(pg_catalog.=) 'scylla'::pg_catalog.regnamespace
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) p.proowner
        union
        select 'schema scylla', a.grantee::pg_catalog.regrole
        from pg_catalog.pg_namespace n
        cross join lateral pg_catalog.aclexplode(n.nspacl) a
        where n.nspname operator(pg_catalog.=) 'scylla'
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) n.nspowner
    loop
        execute pg_catalog.format('revoke all on %s from %s', item.object, item.grantee);
    end loop;
end
$access$;

revoke all on schema scylla from public;
revoke all on all tables in schema scylla from public;
revoke all on all sequences in schema scylla from public;
grant usage on schema scylla to public;
grant execute on all routines in schema scylla to public;
grant select on scylla.tasks, scylla.failed, scylla.schedules, scylla.queues, scylla.groups,
    scylla.stats, scylla.workers, scylla.health to public;

-- Calls for the scheduler: it starts in this database when this transaction has committed.
select scylla.refresh();
