-- Makes live tasks wait for their time that were ready; they keep their position in their groups.
-- Parameters, arrays of one length: $1 ids, $2 when.
-- Reads scylla.task by primary key; changes scylla.task, rows that the caller has locked.
update scylla.task t
set ready = false, held = true, due = p.due, run_at = p.due
from unnest($1, $2) as p (id, due)
where t.id = any ($1) and t.id = p.id
