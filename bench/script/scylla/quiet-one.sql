-- Submits a task of the quiet queue, owns it and returns it.
select scylla.submit('quiet');
select id, token from scylla.own_tasks('bench', 'quiet') \gset
select scylla.return_task(:id, :token);
