-- Submits :size tasks and one that depends on all of them.
with new as materialized (
    select scylla.submit_many(:queue, array_agg(jsonb_build_object('n', n))) as ids from generate_series(1, :size) n
)
select scylla.submit('follower', after => ids) from new;
