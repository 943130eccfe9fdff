-- Whether pg_cron is installed in this database, and the table cron.job is its.
-- Parameters: none. Result: a row when it is.
-- Reads pg_extension, pg_depend and pg_class; changes and locks nothing.
select true
from pg_catalog.pg_extension e
join pg_catalog.pg_depend d
    on d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
    and d.refobjid operator(pg_catalog.=) e.oid and d.deptype operator(pg_catalog.=) 'e'
    and d.classid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
where e.extname operator(pg_catalog.=) 'pg_cron'
    and d.objid operator(pg_catalog.=) pg_catalog.to_regclass('cron.job')
