-- Owns the next link of a chain and returns it, each in a transaction of its own.
select id, token from scylla.own_tasks('bench', 'chain' || :round) \gset
select scylla.return_task(:id, :token);
