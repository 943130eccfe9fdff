-- Returns :size tasks and owns the next ones, in one statement; fails if it got fewer.
\if :begun
select array_agg(o.id) as ids, array_agg(o.token) as tokens, 1 / (count(o.id) = :size)::int as whole from scylla.return_tasks(:ids, :tokens) r left join lateral scylla.own_tasks('bench', :queue, :size) o on true \gset
\else
select array_agg(id) as ids, array_agg(token) as tokens, 1 / (count(*) = :size)::int as whole from scylla.own_tasks('bench', :queue, :size) \gset
\set begun 1
\endif
