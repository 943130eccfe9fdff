-- Marks tasks as followed, so that whoever settles them looks for those who wait.
-- Parameters: $1 ids, of rows that the caller holds.
-- Reads scylla.task by primary key; changes scylla.task. Locks the rows in primary-key order.
update scylla.task t set followed = true where t.id = any ($1) and not t.followed
