-- Keeps the schema from getting another name until the transaction ends.
-- No parameters. Reads the catalog; changes nothing. Locks the schema's row, waiting for a command
--   that renames it.
select from pg_catalog.pg_namespace n where n.nspname = 'scylla' for key share
