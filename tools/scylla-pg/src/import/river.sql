-- Jobs of River. Priority 1, the default, is the most urgent of 4.
select j.id::text as id, j.queue::text as queue, j.kind::text as action, j.args::jsonb as spec, 1 - j.priority::bigint as urgency,
    j.scheduled_at as run_at, j.attempt::integer as attempts, j.max_attempts::integer as max_tries,
    encode(j.unique_key, 'hex') as key, null::text as group_key, null::interval as retry_interval,
    case j.state::text when 'running' then 'running' when 'pending' then 'pending' when 'discarded' then 'failed' end as held,
    j.created_at as created, j.scheduled_at as place, j.id as number,
    jsonb_build_object('tags', j.tags, 'metadata', j.metadata) as more,
    array[
        case when j.unique_key is not null then
            'unique job: the key is River''s hash; give new tasks a key of yours to replace it' end,
        case when exists (select from $schema.river_queue q where q.name = j.queue and q.paused_at is not null) then
            'paused queue: call scylla.pause for this queue' end
    ] as notes
from $schema.river_job j
where j.state::text in ('available', 'scheduled', 'retryable', 'pending', 'running', 'discarded')
