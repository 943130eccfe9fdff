-- Takes up what was put off of some tasks.
-- Parameters: $1 ids. Result: as of take_up.sql.
-- Reads and changes scylla.countdown. Locks the rows it deletes, waiting for the clock if it has one.
delete from scylla.countdown c
where c.task = any ($1)
returning c.task, c.settled, c.failed, c.cause
