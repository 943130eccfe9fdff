-- Jobs of Oban, of Elixir and of Python. Times are UTC. Priority 0, the default, is the most urgent of 10.
select j.id::text as id, j.queue::text as queue, j.worker::text as action, j.args::jsonb as spec, -j.priority::bigint as urgency,
    j.scheduled_at::timestamptz as run_at, j.attempt::integer as attempts, j.max_attempts::integer as max_tries,
    null::text as key, null::text as group_key, null::interval as retry_interval,
    case j.state::text when 'executing' then 'running' when 'suspended' then 'suspended' when 'discarded' then 'failed' end as held,
    j.inserted_at::timestamptz as created, j.scheduled_at::timestamptz as place, j.id::bigint as number,
    jsonb_build_object('tags', to_jsonb(j.tags), 'meta', j.meta) as more,
    array[
        case when j.meta ?| array['uniq', 'uniq_key'] then 'unique job: it has no key; give new tasks one' end,
        case when j.meta ?| array['batch_id', 'workflow_id', 'chain_id'] then
            'batch, workflow or chain: its jobs are tasks without dependencies' end
    ] as notes
from $schema.oban_jobs j
where j.state::text in ('available', 'scheduled', 'retryable', 'suspended', 'executing', 'discarded')
