-- Submits :size tasks, each of one of :groups groups.
\set first random(0, :groups - 1)
select 1 / (cardinality(scylla.submit_many(:queue, array_agg(jsonb_build_object('n', n)), group_keys => array_agg('group ' || (:first::int + n) % :groups::int))) = :size)::int
from generate_series(1, :size) n;
