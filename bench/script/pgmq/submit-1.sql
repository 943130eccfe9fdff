-- Queue.send of its Python client.
select * from pgmq.send(queue_name => 'bench'::text, msg => '{"n": 1}'::jsonb);
