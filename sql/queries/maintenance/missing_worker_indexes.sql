-- The commands that create the missing indexes of settled tasks by worker.
-- Parameters: $1 scylla.finished. Result: of each its partition, and a text of commands; the newest
--   partition first.
-- A partition gets one an hour after the end of its day, when it has rows, and no index of all its
-- rows that begins with the worker.
-- Reads the catalog; changes and locks nothing. Bounds are read as printed: in one time zone.
select c.oid, pg_catalog.format(
    'create index %1$I on %2$s (owner); comment on index scylla.%1$I is %3$L;',
    c.relname || '_owner', c.oid::pg_catalog.regclass, 'finds settled tasks by their worker')
from pg_catalog.pg_inherits p
join pg_catalog.pg_class c on c.oid = p.inhrelid
cross join lateral (
    select substring(pg_catalog.pg_get_expr(c.relpartbound, c.oid) from 'TO \(''(.*?)''\)')
        ::pg_catalog.timestamptz as until
) b
where p.inhparent = $1
    and b.until < pg_catalog.now() - interval '1 hour'
    -- It locks the relation: of others it is not asked, in whichever order these are joined.
    and case when c.relispartition then pg_catalog.pg_relation_size(c.oid) > 0 end
    and not exists (
        select
        from pg_catalog.pg_index i
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
        where i.indrelid = c.oid and i.indisvalid and i.indpred is null and a.attname = 'owner'
    )
order by b.until desc
