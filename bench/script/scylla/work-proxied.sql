-- work-read on a router, with PL/Proxy's functions alone: what none of the router's own can be below.
\if :begun
\else
select shard from router.queue where queue = :queue \gset
\set begun 1
\endif
select array_agg(id) as ids, array_agg(token) as tokens, sum(length(mine::text)) as read
from router._own_tasks(:shard, 'bench', :queue, :size, null, null) mine \gset
select 1 / (cardinality(array_remove(router._return_tasks(:shard, :ids, :tokens, 'completed', null, null), null)) = :size)::int;
