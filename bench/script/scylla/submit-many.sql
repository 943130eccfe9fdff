-- Submits :size tasks with submit_many. The client sends their specs; it makes them once.
\if :begun
\else
select array_agg(jsonb_build_object('n', n)) as specs from generate_series(1, :size) n \gset
\set begun 1
\endif
select 1 / (cardinality(scylla.submit_many(:queue, :specs::jsonb[])) = :size)::int;
