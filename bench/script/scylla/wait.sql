-- A consumer that waits in the server until there is work.
call scylla.wait_for_work(:queue, '1 s');
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(token), '{}') as tokens, count(*) as number from scylla.own_tasks('bench', :queue, 1) \gset
\if :number > 0
select count(*) from unnest(scylla.return_tasks(:ids, :tokens));
\endif
