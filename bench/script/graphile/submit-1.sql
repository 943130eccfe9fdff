-- addJob of its client.
select id from graphile_worker.add_job(identifier => 'bench'::text, payload => '{"n": 1}'::json);
