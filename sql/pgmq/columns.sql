-- The command that takes messages out of a table of pgmq, whose columns differ by its version.
-- Parameters: $1 the name of the table, $2 the command with %1$s for the table, %2$s for the time and %3$s for the headers.
-- Result: the command; no row when the table is not there.
select pg_catalog.format($2, c.oid::pg_catalog.regclass,
    case when c.relname ~ '^a_' then 'archived_at' else 'vt' end,
    case when exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attname = 'headers' and not a.attisdropped
    ) then 'm.headers' else 'null::pg_catalog.jsonb' end)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'pgmq' and c.relname::pg_catalog.text = $1 and c.relkind = any ('{r,p}')
