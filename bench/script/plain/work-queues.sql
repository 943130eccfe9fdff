-- Owns a job and completes it, of 64 queues in turn, each in a transaction of its own.
\set next :next + 1
\set number (:next + 4 * :client_id) % 64
select id, token from plain.own_one('bench', :queue::text || :number::int) \gset
select plain.complete_one(:id, :token);
