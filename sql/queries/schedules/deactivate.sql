-- Makes schedules inactive.
-- Parameters: $1 ids.
-- Reads scylla.schedule by primary key; changes it, rows that the caller has locked.
update scylla.schedule s set active = false, next_run = null where s.id = any ($1)
