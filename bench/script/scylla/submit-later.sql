-- Submits :size tasks that are due in less than an hour.
select count(*) from scylla.submit_many(:queue, array_fill('{}'::jsonb, array[:size::int]), run_at => now() + interval '55 minutes');
