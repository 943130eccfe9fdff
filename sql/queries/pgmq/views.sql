-- The command that creates the views of a queue and of its archive in the schema pgmq.
-- Parameters: $1 queue. Result: the command, null where there is no such schema.
-- Reads the catalog; changes and locks nothing.
select pg_catalog.format(
    $views$
    create view pgmq.%1$I as
    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    from scylla._pgmq_messages(%3$L, false) m;
    create view pgmq.%2$I as
    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.archived_at, m.vt, m.message, m.headers
    from scylla._pgmq_messages(%3$L, true) m;
    comment on view pgmq.%1$I is 'the messages of a queue';
    comment on view pgmq.%2$I is 'the archive of a queue';
    -- Default privileges are none here.
    do $acl$
    declare
        item record;
    begin
        for item in
            select distinct case a.grantee when 0 then 'public' else a.grantee::pg_catalog.regrole::text end as grantee
            from pg_catalog.pg_class c
            cross join lateral pg_catalog.aclexplode(c.relacl) a
            where c.oid in ('pgmq.%1$I'::pg_catalog.regclass, 'pgmq.%2$I'::pg_catalog.regclass)
                and a.grantee <> c.relowner
        loop
            execute pg_catalog.format('revoke all on pgmq.%%I, pgmq.%%I from %%s', %4$L, %5$L, item.grantee);
        end loop;
    end
    $acl$;
    grant select on pgmq.%1$I, pgmq.%2$I to public;
    $views$, 'q_' || $1, 'a_' || $1, $1, 'q_' || $1, 'a_' || $1)
from pg_catalog.pg_namespace n
where n.nspname = 'pgmq' and pg_catalog.to_regclass('pgmq.meta') in (
    select c.oid from pg_catalog.pg_class c where c.relkind = 'v')
