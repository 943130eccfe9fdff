-- Clears away the rows of leases that are over: their task was settled or written since.
-- No parameters. Reads scylla.task by primary key; changes scylla.lease.
delete from scylla.lease l
where (
    select true from scylla.task t where t.id = l.id and t.updated = l.stamp
) is null
