-- Locks schedules whose runs are to be counted.
-- Parameters: $1 how many. Result: the id of each.
-- Reads all of scylla.run_count, and scylla.schedule by primary key; changes nothing. Locks the
-- schedules' rows, waiting for none.
select s.id
from scylla.schedule s
where s.id = any (array(select distinct c.schedule from scylla.run_count c))
limit $1
for update skip locked
