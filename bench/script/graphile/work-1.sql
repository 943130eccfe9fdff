-- What its workers do with one job: getJobs.js and completeJobs.js; fails if the job was gone.
with j as (
  select jobs.job_queue_id, jobs.priority, jobs.run_at, jobs.id
    from graphile_worker._private_jobs as jobs
    where jobs.is_available = true
    and run_at <= now()
    and task_id = any(:tasks::int[])
    and (
      jobs.job_queue_id is null
      or
      jobs.job_queue_id in (
        select id
        from graphile_worker._private_job_queues as job_queues
        where job_queues.is_available = true
        for update
        skip locked
      )
    )
    order by priority asc, run_at asc
    limit 1
    for update
    skip locked
), q as (
  update graphile_worker._private_job_queues as job_queues
    set locked_by = 'bench', locked_at = now()
    from j
    where job_queues.id = j.job_queue_id
)
  update graphile_worker._private_jobs as jobs
    set attempts = jobs.attempts + 1, locked_by = 'bench', locked_at = now()
    from j
    where jobs.id = j.id
    returning jobs.id \gset
with gone as (
  delete from graphile_worker._private_jobs as jobs where id = :id::bigint returning id
)
select 1 / (count(*) = 1)::int from gone;
