-- Inserts one task that is ready at once, under a generated id, so that it conflicts with nothing.
-- Parameters: the value of each of the first columns of COLUMNS in src/ops/submit/insert.rs.
-- Result: the id.
-- Reads nothing; changes scylla.task. Locks: only what it inserts.
insert into scylla.task ({columns}, updated, ready)
select {values}, least(s.created, pg_catalog.clock_timestamp()), true
from (values ({parameters})) as s ({columns})
returning id
