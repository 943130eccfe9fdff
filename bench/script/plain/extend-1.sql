-- Extends one of :leases running jobs.
\set n random(1, :leases)
select 1 / plain.extend(id, token)::int from plain.held where n = :n;
