-- A heartbeat of :size of :leases leases.
\set first random(0, :leases / :size - 1)
select 1 / bool_and(state = 'held')::int
from (select array_agg(id) as ids, array_agg(token) as tokens from reference.held where n > :first::int * :size::int and n <= :first::int * :size::int + :size::int) h, scylla.heartbeat('bench', h.ids, h.tokens, '1 hour');
