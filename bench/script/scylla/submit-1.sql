-- Submits one task.
select scylla.submit(:queue, '{"n": 1}');
