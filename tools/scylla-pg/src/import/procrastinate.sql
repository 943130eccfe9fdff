-- Jobs of Procrastinate. The first event of a job is its submission.
select j.id::text as id,
    j.queue_name || case when j.lock is null then '' else '.serial' end as queue,
    j.task_name::text as action, j.args as spec, j.priority::bigint as urgency, j.scheduled_at as run_at,
    j.attempts, null::integer as max_tries, j.queueing_lock as key, j.lock as group_key,
    null::interval as retry_interval,
    case j.status::text when 'doing' then 'running' when 'aborting' then 'running' when 'failed' then 'failed' end as held,
    (select min(e.at) from $schema.procrastinate_events e where e.job_id = j.id) as created,
    null::timestamptz as place, j.id as number, '{}'::jsonb as more,
    array[
        case when j.lock is not null then
            'lock, one job at a time: set max_running_per_group => 1 on this queue' end,
        case when j.queueing_lock is not null then
            'queueing lock: the key stays taken while the task runs, within its queue' end
    ] as notes
from $schema.procrastinate_jobs j
where j.status::text in ('todo', 'doing', 'aborting', 'failed')
