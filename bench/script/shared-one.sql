-- Owns a task with a shared dependent and returns it, each in a transaction of its own.
select id, token from scylla.own_tasks('bench', 'shared') \gset
select scylla.return_task(:id, :token);
