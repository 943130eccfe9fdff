-- A thousand tasks of the flooded queue a transaction.
select count(*)
from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'flood', 'spec', jsonb_build_object('n', n)))
    from generate_series(1, 1000) n
));
