-- Submits :size tasks with submit_tasks. The client sends their documents; it makes them once.
\if :begun
\else
select jsonb_agg(jsonb_build_object('queue', :queue::text, 'spec', jsonb_build_object('n', n))) as tasks from generate_series(1, :size) n \gset
\set begun 1
\endif
select 1 / (count(*) = :size)::int from scylla.submit_tasks(:tasks::jsonb);
