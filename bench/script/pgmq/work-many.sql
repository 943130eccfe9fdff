-- Queue.read_batch and Queue.delete_batch of its Python client; fails if a message was gone.
select array_agg(msg_id) as ids from pgmq.read(queue_name => 'bench'::text, vt => 30, qty => :size) \gset
select 1 / (count(*) = :size)::int from pgmq.delete(queue_name => 'bench'::text, msg_ids => :ids::bigint[]);
