-- Sets how often imported messages were read.
-- Parameters, arrays of one length: $1 ids, $2 numbers.
-- Reads scylla.task by primary key; changes it: rows that this transaction inserted.
update scylla.task t set tries = s.tries
from unnest($1, $2) as s (id, tries)
where t.id = any ($1) and t.id = s.id
