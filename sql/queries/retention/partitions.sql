-- The partitions of scylla.finished.
-- Parameters: $1 scylla.finished. Result: its oid, its name as a statement takes it, how many
--   blocks it has, and from when to when its tasks were settled (null: the default partition, or
--   without such a limit).
-- Reads the catalog; changes and locks nothing. Bounds are read as printed: in one time zone.
select p.inhrelid, p.inhrelid::pg_catalog.regclass::pg_catalog.text,
    pg_catalog.pg_relation_size(p.inhrelid)
        / pg_catalog.current_setting('block_size')::pg_catalog.int8,
    substring(b.bound from 'FROM \(''(.*?)''\)')::pg_catalog.timestamptz,
    substring(b.bound from 'TO \(''(.*?)''\)')::pg_catalog.timestamptz
from pg_catalog.pg_inherits p
join pg_catalog.pg_class c on c.oid = p.inhrelid
cross join lateral (select pg_catalog.pg_get_expr(c.relpartbound, c.oid) as bound) b
where p.inhparent = $1
