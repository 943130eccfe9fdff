-- Owns a job, reads its spec and completes it, each in a transaction of its own.
select id, token, spec from plain.own_one('bench', :queue) \gset
select plain.complete_one(:id, :token);
