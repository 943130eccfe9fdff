-- Queue.send of the Python client of pgmq.
select * from pgmq_api.send(queue_name => 'messages'::text, msg => '{"n": 1}'::jsonb);
