-- A consumer that asks again at once while there is work, and after a pause when there was none. Strict: a call that
-- found nothing counts as a failed transaction, not as one that was done.
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(token), '{}') as tokens, count(*) as number from scylla.own_tasks('bench', :queue, :size) \gset
\if :number > 0
select count(*) from unnest(scylla.return_tasks(:ids, :tokens));
\else
\sleep :pause ms
\if :strict
do $$ begin raise serialization_failure; end $$;
\endif
\endif
