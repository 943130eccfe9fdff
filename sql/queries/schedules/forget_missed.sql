-- Forgets runs that were missed.
-- Parameters: $1 the schedules.
-- Reads scylla.missed by primary key; changes it. Waits for another transaction that catches up with
-- these runs.
delete from scylla.missed m where m.schedule = any ($1)
