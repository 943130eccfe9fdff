-- Queue.read and Queue.delete of its Python client; fails if the message was gone.
select msg_id from pgmq.read(queue_name => 'bench'::text, vt => 30, qty => 1) \gset
select 1 / pgmq.delete(queue_name => 'bench'::text, msg_id => :msg_id::bigint)::int;
