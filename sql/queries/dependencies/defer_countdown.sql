-- Records for the scheduler which tasks could not be counted down, since their rows were locked.
-- Parameters, arrays of one length: $1 the tasks, $2 how many predecessors have settled, $3 how
--   many of these failed, $4 one of those, $5 when each task was submitted, or null: the task that
--   has the id now.
-- Reads scylla.task by primary key, since another task may get the id of one that is deleted;
--   changes scylla.countdown. Locks: only what it inserts.
insert into scylla.countdown (task, created, settled, failed, cause)
select c.task, t.created, c.settled, c.failed, c.cause
from unnest($1, $2, $3, $4, $5) as c (task, settled, failed, cause, created)
cross join lateral (
    select o.created from scylla.task o
    where o.id = c.task and (c.created is null or c.created = o.created)
    offset 0
) t
