-- All privileges that were granted.
-- No parameters. Result: queue, role and privileges of each grant.
-- Reads scylla.privilege; changes and locks nothing.
select p.queue, p.role::pg_catalog.oid, p.privileges from scylla.privilege p
