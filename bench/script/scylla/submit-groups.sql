-- Submits :size tasks, each of one of 10,000 groups.
\set first random(0, 9)
select 1 / (cardinality(scylla.submit_many(:queue, array_agg(jsonb_build_object('n', n)), group_keys => array_agg('group ' || :first::int * 1000 + n))) = :size)::int
from generate_series(1, :size) n;
