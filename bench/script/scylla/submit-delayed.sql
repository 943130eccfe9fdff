-- Submits a task that is due in a tenth of a second.
select scylla.submit(:queue, '{"n": 1}', run_at => clock_timestamp() + interval '0.1 s');
