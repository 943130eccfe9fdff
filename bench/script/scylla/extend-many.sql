-- Extends :size of :leases leases.
\set first random(0, :leases / :size - 1)
select 1 / bool_and(held)::int
from unnest((
    select scylla.extend_tasks(array_agg(id), array_agg(token), timeout => '1 hour')
    from reference.held
    where n > :first::int * :size::int and n <= :first::int * :size::int + :size::int
)) as held;
