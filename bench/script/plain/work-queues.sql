-- Owns a job of 64 queues, one after the other, and completes it, each in a transaction of its own.
\set next :next + 1
\set number (:next + 4 * :client_id) % 64
select id, token from plain.own_one('bench', :queue::text || :number::int) \gset
select plain.complete_one(:id, :token);
