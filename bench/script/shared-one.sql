-- Owns a task that a shared follower waits for and returns it, each in a transaction of its own.
select id, token from scylla.own_tasks('bench', 'shared') \gset
select scylla.return_task(:id, :token);
