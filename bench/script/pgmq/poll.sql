-- A consumer that asks again at once while there is work, and after a pause when there was none. It archives what
-- was read before, so that one can see when.
select coalesce(array_agg(msg_id), '{}') as ids, count(*) as number, coalesce(max(read_ct), 0) as reads from pgmq.read(queue_name => 'bench'::text, vt => 10, qty => :size) \gset
\if :number > 0
\if :reads > 1
select count(*) from pgmq.archive(queue_name => 'bench'::text, msg_ids => :ids::bigint[]);
\else
select count(*) from pgmq.delete(queue_name => 'bench'::text, msg_ids => :ids::bigint[]);
\endif
\else
\sleep :pause ms
\if :strict
do $$ begin raise serialization_failure; end $$;
\endif
\endif
