-- Submits :size tasks with specs of :bytes bytes.
select 1 / (cardinality(scylla.submit_many(:queue, array_fill(spec, array[:size::int]))) = :size)::int from reference.spec where bytes = :bytes;
