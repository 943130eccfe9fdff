-- Makes this database what it is from now on (I12): open or closed, and no copy of another.
-- Parameters: $1 whether it is open. Reads the catalog; changes scylla.incarnation, which the
--   caller has locked.
with before as (
    delete from scylla.incarnation i returning i.critical_only
)
insert into scylla.incarnation (database, open, used, critical_only)
select d.oid, $1, exists (
        select
        from pg_catalog.pg_inherits p
        where p.inhparent = 'scylla.finished'::pg_catalog.regclass
            and p.inhrelid <> 'scylla.finished_default'::pg_catalog.regclass
    ),
    coalesce((select pg_catalog.bool_or(b.critical_only) from before b), false)
from pg_catalog.pg_database d
where d.datname = pg_catalog.current_database()
