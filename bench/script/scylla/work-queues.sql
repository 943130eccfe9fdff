-- Owns a task and returns it, of 64 queues in turn, each in a transaction of its own.
\set next :next + 1
\set number (:next + 4 * :client_id) % 64
select id, token from scylla.own_tasks('bench', :queue::text || :number::int) \gset
select scylla.return_task(:id, :token);
