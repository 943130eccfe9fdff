-- Takes up what was put off, at most a batch.
-- Parameters: $1 how many. Result: task, how many predecessors have settled, how many of these failed,
--   and one of those.
-- Reads and changes scylla.countdown. Never waits for a row.
delete from scylla.countdown c
where c.ctid = any (array(
    select o.ctid from scylla.countdown o limit $1 for update skip locked
))
returning c.task, c.settled, c.failed, c.cause
