-- A trivial function of two uuids: what the statement around extend costs.
\set n random(1, :leases)
select id <> token from reference.held where n = :n;
