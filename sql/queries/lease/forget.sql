-- Takes back leases that ended while they were being written behind.
-- Parameters: $1 ids. Reads and changes scylla.lease.
delete from scylla.lease l where l.id = any ($1)
