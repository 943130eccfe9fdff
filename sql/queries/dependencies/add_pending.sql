-- Makes live tasks wait for more predecessors than they do.
-- Parameters: $1 now; arrays of one length: $2 the tasks, $3 for how many more each is to wait,
--   $4 these predecessors, as the text of an array.
-- Reads scylla.task by primary key; changes scylla.task, rows that the caller has locked.
update scylla.task t
set pending = t.pending + s.pending,
    ready = false,
    held = false,
    behind = false,
    due = null,
    after = t.after || s.after::uuid[],
    updated = $1
from unnest($2, $3, $4) as s (task, pending, after)
where t.id = any ($2) and t.id = s.task
