-- Extends one of ten thousand leases.
\set n random(1, 10000)
select 1 / scylla.extend(id, token, timeout => '1 hour')::int from reference.held where n = :n;
