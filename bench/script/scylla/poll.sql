-- A consumer that asks again at once while there is work, and after a millisecond when there was none.
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(token), '{}') as tokens, count(*) as number from scylla.own_tasks('bench', :queue, :size) \gset
\if :number > 0
select count(*) from unnest(scylla.return_tasks(:ids, :tokens));
\else
\sleep 1 ms
\endif
