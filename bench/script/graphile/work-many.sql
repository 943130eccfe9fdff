-- The same for :size jobs, as its workers do with a local queue and a delay for completions.
with j_raw as (
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
    limit :size
    for update
    skip locked
), j as (
  select distinct on (job_queue_id, case when job_queue_id is null then id end)
      job_queue_id, priority, run_at, id
    from j_raw
    order by job_queue_id, case when job_queue_id is null then id end, priority asc, run_at asc
), q as (
  update graphile_worker._private_job_queues as job_queues
    set locked_by = 'bench', locked_at = now()
    from j
    where job_queues.id = j.job_queue_id
), taken as (
  update graphile_worker._private_jobs as jobs
    set attempts = jobs.attempts + 1, locked_by = 'bench', locked_at = now()
    from j
    where jobs.id = j.id
    returning jobs.*
)
select array_agg(id) as ids from taken \gset
with gone as (
  delete from graphile_worker._private_jobs as jobs using unnest(:ids::bigint[]) n(n) where id = n returning id
)
select 1 / (count(*) = :size)::int from gone;
