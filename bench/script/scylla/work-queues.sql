-- Owns a task of one of 64 queues and returns it, each in a transaction of its own.
\set number random(0, 63)
select id, token from scylla.own_tasks('bench', :queue::text || :number::int) \gset
select scylla.return_task(:id, :token);
