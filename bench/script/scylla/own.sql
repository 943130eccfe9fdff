-- Owns a task and keeps it.
select id, token from scylla.own_tasks('bench', :queue, timeout => '1 hour') \gset
