-- Queue.send_batch of the Python client of pgmq.
\if :begun
\else
select array_agg(jsonb_build_object('n', n)) as specs from generate_series(1, :size) n \gset
\set begun 1
\endif
select count(*) from pgmq_api.send_batch(queue_name => 'messages'::text, msgs => :specs::jsonb[]);
