-- Which schedules have a run that is due.
-- Parameters: $1 ids, $2 until when. Result: the id of each.
-- Reads scylla.schedule by primary key; changes and locks nothing.
select s.id from scylla.schedule s where s.id = any ($1) and s.next_run <= $2
