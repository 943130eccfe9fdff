-- Owns :size jobs and completes them, each in a transaction of its own; fails if one was not completed.
select array_agg(id) as ids, array_agg(token) as tokens from plain.own('bench', :queue, :size) \gset
select 1 / (plain.complete(:ids, :tokens) = :size)::int;
