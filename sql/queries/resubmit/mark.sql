-- Notes in settled tasks which tasks repeat them.
-- Parameters, arrays of one length: $1 ids, $2 the ids of the new tasks.
-- Reads scylla.finished by id; changes scylla.finished, rows that the caller has locked.
update scylla.finished f
set resubmitted_as = r.as_task
from unnest($1, $2) as r (id, as_task)
where f.id = any ($1) and f.id = r.id
