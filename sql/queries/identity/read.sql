-- What this database knows of itself (I12): copied or restored, it has a row of another database,
-- or one more than its own; or it has days that it did not make.
-- No parameters. Result: whether it is open, whether it has made days of its own, and whether only
-- critical queues hand out tasks.
-- Reads scylla.incarnation and the catalog; changes and locks nothing.
select pg_catalog.count(*) = 1
        and pg_catalog.bool_and(i.open and i.database = here.oid and (i.used or not made.days)),
    coalesce(pg_catalog.bool_or(i.used and i.database = here.oid), false),
    coalesce(pg_catalog.bool_or(i.critical_only), false)
from (
    select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()
) here
cross join (
    select exists (
        select
        from pg_catalog.pg_inherits p
        where p.inhparent = 'scylla.finished'::pg_catalog.regclass
            and p.inhrelid <> 'scylla.finished_default'::pg_catalog.regclass
    ) as days
) made
left join scylla.incarnation i on true
