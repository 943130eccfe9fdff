-- Owns a job and completes it, each in a transaction of its own.
select id, token from plain.own_one('bench', :queue) \gset
select plain.complete_one(:id, :token);
