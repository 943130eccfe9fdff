-- A thousand tasks a transaction, due in less than an hour.
select count(*)
from scylla.submit_tasks((
    select jsonb_agg(jsonb_build_object('queue', 'backlog', 'run_at', now() + interval '55 minutes'))
    from generate_series(1, 1000)
));
