-- Queue.read_batch and Queue.delete_batch of the Python client of pgmq; fails if a message was gone.
select array_agg(msg_id) as ids from pgmq_api.read(queue_name => 'messages'::text, vt => 30, qty => :size) \gset
select 1 / (count(*) = :size)::int from pgmq_api.delete(queue_name => 'messages'::text, msg_ids => :ids::bigint[]);
