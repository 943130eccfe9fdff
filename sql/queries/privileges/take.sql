-- Takes away what a role was granted on a queue, and all grants of roles that no longer exist.
-- Parameters: $1 queue, $2 role.
-- Result: the privileges of each grant of this role on this queue; a row of nulls per other one.
-- Reads pg_roles; changes scylla.privilege, which the caller has locked.
delete from scylla.privilege p
where (p.queue = $1 and p.role::pg_catalog.oid = $2)
    or not exists (select from pg_catalog.pg_roles r where r.oid = p.role::pg_catalog.oid)
returning case when p.queue = $1 and p.role::pg_catalog.oid = $2 then p.privileges end
