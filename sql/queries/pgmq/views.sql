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
    revoke all on pgmq.%1$I, pgmq.%2$I from public;
    grant select on pgmq.%1$I, pgmq.%2$I to public;
    $views$, 'q_' || $1, 'a_' || $1, $1)
from pg_catalog.pg_namespace n
where n.nspname = 'pgmq' and pg_catalog.to_regclass('pgmq.meta') in (
    select c.oid from pg_catalog.pg_class c where c.relkind = 'v')
