-- Owns :size tasks and returns them with return_tasks, all as completed, each second one with a result; fails if one
-- was not returned. The client sends the results; it makes them once.
\if :begun
\else
select array_agg(case when n % 2 = 1 then '{"done": true}'::jsonb end order by n) as results from generate_series(1, :size) n \gset
\set begun 1
\endif
select array_agg(id) as ids, array_agg(token) as tokens from scylla.own_tasks('bench', :queue, :size) \gset
select 1 / (cardinality(array_remove(scylla.return_tasks(:ids, :tokens, results => :results::jsonb[]), null)) = :size)::int;
