-- Jobs of Graphile Worker. A lock older than four hours is abandoned: its workers take the job again.
select j.id::text as id,
    'graphile-worker' || case when q.queue_name is null then '' else '.serial' end as queue,
    t.identifier as action, j.payload::jsonb as spec, -j.priority::bigint as urgency, j.run_at,
    j.attempts::integer as attempts, j.max_attempts::integer as max_tries, j.key,
    q.queue_name as group_key, null::interval as retry_interval,
    case when j.locked_at >= now() - interval '4 hours' then 'running'
        when j.attempts >= j.max_attempts then 'failed' end as held,
    j.created_at as created, j.run_at as place, j.id::bigint as number,
    jsonb_build_object('flags', j.flags, 'last_error', j.last_error) as more,
    array[
        case when q.queue_name is not null then
            'named queue, one job at a time: set max_running_per_group => 1 on this queue' end,
        case when j.key is not null then
            'job key: it stays taken while the task runs, and on_conflict => ''replace'' then fails' end,
        case when j.flags is not null then 'flags: they are in meta only' end
    ] as notes
from $schema._private_jobs j
join $schema._private_tasks t on t.id = j.task_id
left join $schema._private_job_queues q on q.id = j.job_queue_id
