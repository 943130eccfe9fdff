-- Owns up to :size tasks and returns them, each in a transaction of its own.
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(token), '{}') as tokens from scylla.own_tasks('bench', :queue, :size) \gset
select count(*) from unnest(scylla.return_tasks(:ids, :tokens));
