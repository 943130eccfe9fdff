-- Owns a thousand jobs and completes them, each in a transaction of its own; fails if one was not completed.
select array_agg(id) as ids, array_agg(token) as tokens from plain.own('bench', 'bench', 1000) \gset
select 1 / (plain.complete(:ids, :tokens) = 1000)::int;
