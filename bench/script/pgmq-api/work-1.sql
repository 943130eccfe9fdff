-- Queue.read and Queue.delete of the Python client of pgmq; fails if the message was gone.
select msg_id from pgmq_api.read(queue_name => 'messages'::text, vt => 30, qty => 1) \gset
select 1 / pgmq_api.delete(queue_name => 'messages'::text, msg_id => :msg_id::bigint)::int;
