-- Owns :size tasks and returns them with return_many, each tenth as aborted, the others completed, each second
-- one of them with a result; fails if one was not returned. The client sends what became of them; it makes that once.
\if :begun
\else
select array_agg(case when n % 10 = 0 then 'aborted' else 'completed' end order by n) as outcomes, array_agg(case when n % 2 = 1 then '{"done": true}'::jsonb end order by n) as results, array_agg(case when n % 10 = 0 then '{"code": "failed"}'::jsonb end order by n) as errors from generate_series(1, :size) n \gset
\set begun 1
\endif
select array_agg(id) as ids, array_agg(token) as tokens from scylla.own_tasks('bench', :queue, :size) \gset
select 1 / (cardinality(array_remove(scylla.return_many(:ids, :tokens, :outcomes, :results::jsonb[], :errors::jsonb[]), null)) = :size)::int;
