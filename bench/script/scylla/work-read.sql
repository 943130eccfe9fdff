-- Owns :size tasks, reads each whole, as a worker does, and returns them, each in a transaction of its own; fails if
-- one was not returned.
select array_agg(id) as ids, array_agg(token) as tokens, sum(length(mine::text)) as read
from scylla.own_tasks('bench', :queue, :size) mine \gset
select 1 / (cardinality(array_remove(scylla.return_tasks(:ids, :tokens), null)) = :size)::int;
