-- Submits :size tasks, spread over 64 queues.
\if :begun
\else
select jsonb_agg(jsonb_build_object('queue', :queue::text || n % 64, 'spec', jsonb_build_object('n', n))) as tasks from generate_series(1, :size) n \gset
\set begun 1
\endif
select 1 / (count(*) = :size)::int from scylla.submit_tasks(:tasks::jsonb);
