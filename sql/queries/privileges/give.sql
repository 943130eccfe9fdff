-- Grants a role privileges on a queue.
-- Parameters: $1 queue, $2 role, $3 privileges.
-- Changes scylla.privilege, which the caller has locked.
insert into scylla.privilege (queue, role, privileges) values ($1, $2::scylla.role, $3)
