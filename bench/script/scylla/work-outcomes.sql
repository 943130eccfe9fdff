-- Owns :size tasks and returns them with return_many, each tenth as aborted, the others completed, each second
-- one of them with a result; fails if one was not returned.
select array_agg(id) as ids, array_agg(token) as tokens from scylla.own_tasks('bench', :queue, :size) \gset
select 1 / (cardinality(array_remove(scylla.return_many(:ids, :tokens, array_agg(case when n % 10 = 0 then 'aborted' else 'completed' end order by n), array_agg(case when n % 2 = 1 then '{"done": true}'::jsonb end order by n), array_agg(case when n % 10 = 0 then '{"code": "failed"}'::jsonb end order by n)), null)) = :size)::int from generate_series(1, :size) as n;
