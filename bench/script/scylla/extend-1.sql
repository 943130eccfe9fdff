-- Extends one of :leases leases.
\set n random(1, :leases)
select 1 / scylla.extend(id, token, timeout => '1 hour')::int from reference.held where n = :n;
