-- Submits one job.
insert into plain.job (queue, spec) values (:queue, '{"n": 1}') returning id;
