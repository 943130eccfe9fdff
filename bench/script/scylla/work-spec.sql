-- Owns a task, reads its spec and returns it, each in a transaction of its own.
select id, token, spec from scylla.own_tasks('bench', :queue) \gset
select scylla.return_task(:id, :token);
