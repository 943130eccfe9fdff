-- Submits a task and one that depends on it.
begin;
select scylla.submit(:queue, '{"n": 1}') as first \gset
select scylla.submit(:queue, '{"n": 2}', after => array[:first::uuid]);
commit;
