-- All rows of all tables of a database, and the state of its sequences: not by scylla, which is not at
-- work in binary upgrade mode.
\set QUIET on
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
select format('select %L || t::text from only %s t order by t::text collate "C"', oid::regclass || ' ', oid::regclass)
from pg_class
where relkind = 'r' and relnamespace::regnamespace::text in ('scylla', 'cron', 'public')
order by oid::regclass::text collate "C" \gexec
select format('select %L || last_value || is_called from %s', oid::regclass || ' ', oid::regclass)
from pg_class
where relkind = 'S' and relnamespace::regnamespace::text in ('scylla', 'cron', 'public')
order by oid::regclass::text collate "C" \gexec
