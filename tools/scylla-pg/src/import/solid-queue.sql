-- Jobs of Solid Queue. Times are UTC.
select j.id::text as id,
    j.queue_name || case when j.concurrency_key is null then '' else '.serial' end as queue,
    j.class_name::text as action, j.arguments::jsonb as spec, -j.priority::bigint as urgency,
    j.scheduled_at::timestamptz as run_at, coalesce((j.arguments::jsonb ->> 'executions')::integer, 0) as attempts,
    null::integer as max_tries, null::text as key, j.concurrency_key::text as group_key, null::interval as retry_interval,
    case when exists (select from $schema.solid_queue_claimed_executions c where c.job_id = j.id) then 'running'
        when exists (select from $schema.solid_queue_failed_executions f where f.job_id = j.id) then 'failed' end as held,
    j.created_at::timestamptz as created, j.scheduled_at::timestamptz as place, j.id::bigint as number,
    jsonb_build_object('active_job_id', j.active_job_id) as more,
    array[
        case when j.concurrency_key is not null then
            'limits_concurrency: set max_running_per_group of this queue to its limit' end,
        case when exists (select from $schema.solid_queue_pauses p where p.queue_name = j.queue_name) then
            'paused queue: call scylla.pause for this queue' end
    ] as notes
from $schema.solid_queue_jobs j
where j.finished_at is null
