-- Records for the scheduler which tasks could not be counted down, since their rows were locked.
-- Parameters, arrays of one length: $1 the tasks, $2 how many predecessors have settled, $3 how
--   many of these failed, $4 one of those.
-- Reads scylla.task by primary key, since another task may get the id of one that is deleted;
--   changes scylla.countdown. Locks: only what it inserts.
insert into scylla.countdown (task, created, settled, failed, cause)
select c.task, t.created, c.settled, c.failed, c.cause
from unnest($1, $2, $3, $4) as c (task, settled, failed, cause)
cross join lateral (select o.created from scylla.task o where o.id = c.task offset 0) t
