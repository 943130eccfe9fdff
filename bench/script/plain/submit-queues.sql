-- Submits :size jobs, spread over 64 queues.
insert into plain.job (queue, spec) select :queue::text || n % 64, jsonb_build_object('n', n) from generate_series(1, :size) n;
