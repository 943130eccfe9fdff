-- Extends one of ten thousand running jobs.
\set n random(1, 10000)
select 1 / plain.extend(id, token)::int from plain.held where n = :n;
