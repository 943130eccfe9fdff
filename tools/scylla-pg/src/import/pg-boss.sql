-- Jobs of pg-boss. Columns that not every version has are read through JSON, which is made once for each job:
-- without the offset, it would be made for each of its uses.
select j.id::text as id,
    j.name || case when o.row ->> 'policy' = 'key_strict_fifo' then '.serial' else '' end as queue,
    '' as action, j.data::jsonb as spec, j.priority::bigint as urgency, j.start_after::timestamptz as run_at,
    j.retry_count + (j.started_on is not null)::integer as attempts, j.retry_limit + 1 as max_tries,
    case when o.row ->> 'policy' in ('short', 'stately', 'exclusive')
        then coalesce(nullif(j.singleton_key, ''), '*') end as key,
    case when o.row ->> 'policy' = 'key_strict_fifo' then j.singleton_key
        else o.row ->> 'group_id' end as group_key,
    case when j.retry_delay > 0 then make_interval(secs => j.retry_delay) end as retry_interval,
    case when j.state::text = 'active' then 'running' when j.state::text = 'failed' then 'failed'
        when (o.row ->> 'blocked')::boolean then 'blocked' end as held,
    j.created_on::timestamptz as created, j.created_on::timestamptz as place, null::bigint as number,
    jsonb_strip_nulls(jsonb_build_object('singleton_key', j.singleton_key, 'dead_letter', o.row ->> 'dead_letter',
        'expire_seconds', o.row -> 'expire_seconds', 'keep_until', o.row ->> 'keep_until',
        'trace_context', o.row -> 'trace_context')) as more,
    array[
        case when o.row ->> 'policy' = 'key_strict_fifo' then
            'key_strict_fifo, one job of a key at a time: set max_running_per_group => 1 on this queue' end,
        case when o.row ->> 'policy' = 'singleton' then
            'policy singleton, one job at a time: set max_running => 1 on this queue' end,
        case when o.row ->> 'policy' in ('short', 'stately', 'exclusive') then
            'policy ' || (o.row ->> 'policy') || ': one unfinished task of a key, the running one included' end,
        case when o.row ->> 'policy' in ('standard', 'singleton') and j.singleton_key is not null then
            'singletonKey: kept in meta only, since jobs of this policy may share it' end,
        case when o.row ->> 'group_id' is not null then
            'group: a concurrency of the group is max_running_per_group of this queue' end,
        case when j.retry_delay > 0 and not j.retry_backoff then
            'retryDelay without backoff: the pause doubles with each retry' end,
        case when o.row ->> 'dead_letter' is not null then
            'dead letter queue: an aborted task stays in its queue, in scylla.failed' end,
        case when j.singleton_on is not null then
            'singletonSeconds: the time slot does not stay taken' end
    ] as notes
from $schema.job j cross join lateral (select to_jsonb(j) - 'data' - 'output' offset 0) as o (row)
where j.state::text in ('created', 'retry', 'active', 'failed')
