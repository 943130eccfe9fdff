-- Extends a thousand of ten thousand leases.
\set n random(0, 9)
select 1 / bool_and(held)::int
from unnest((
    select scylla.extend_tasks(array_agg(id), array_agg(token), timeout => '1 hour')
    from reference.held
    where n > :n * 1000 and n <= :n * 1000 + 1000
)) as held;
