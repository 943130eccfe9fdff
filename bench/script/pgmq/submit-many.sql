-- Queue.send_batch of its Python client.
\if :begun
\else
select array_agg(jsonb_build_object('n', n)) as specs from generate_series(1, :size) n \gset
\set begun 1
\endif
select count(*) from pgmq.send_batch(queue_name => 'bench'::text, msgs => :specs::jsonb[]);
