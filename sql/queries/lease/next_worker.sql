-- The number of a new worker.
-- No parameters. Result: a bigint, never given twice. Changes the sequence scylla.worker_number.
select pg_catalog.nextval('scylla.worker_number')
