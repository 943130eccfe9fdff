-- Whether the extension pgmq is installed.
-- No parameters. Result: one row if it is.
-- Reads pg_extension; changes and locks nothing.
select 1 from pg_catalog.pg_extension e where e.extname = 'pgmq'
