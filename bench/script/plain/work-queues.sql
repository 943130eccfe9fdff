-- Owns a job of one of 64 queues and completes it, each in a transaction of its own.
\set number random(0, 63)
select id, token from plain.own_one('bench', :queue::text || :number::int) \gset
select plain.complete_one(:id, :token);
