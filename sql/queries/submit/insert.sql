-- Inserts tasks.
-- Parameters: an array for each column of COLUMNS in src/ops/submit/insert.rs, in that order, with an
--   element per task; null where no task has such a value.
-- Result: the id of each task inserted. A task whose id or key a live task has is left out, as far as
--   the conflict clause says; else it is PostgreSQL's error.
-- Reads nothing; changes scylla.task. Locks: only what it inserts, in the order given.
insert into scylla.task ({columns})
select {values}
from unnest({parameters}) as s ({columns})
{conflict}
returning id
