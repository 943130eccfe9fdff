-- Marks tasks as having dependents, so that the transaction that settles them counts these down.
-- Parameters: $1 ids, of rows that the caller has locked.
-- Reads scylla.task by primary key; changes scylla.task. Locks the rows in primary-key order.
update scylla.task t set followed = true where t.id = any ($1) and not t.followed
