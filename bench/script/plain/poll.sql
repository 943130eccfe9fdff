-- A consumer that asks again at once while there is work, and after a pause when there was none.
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(token), '{}') as tokens, count(*) as number from plain.own('bench', :queue, :size) \gset
\if :number > 0
select plain.complete(:ids, :tokens);
\else
\sleep :pause ms
\if :strict
do $$ begin raise serialization_failure; end $$;
\endif
\endif
