-- What the queues and workers of this database do now. In psql:
--   \set top `cat top.sql`
--   :top \watch 2
-- It reads the views scylla.queues and scylla.workers, and shows what the role may look at there: the
-- sum of all queues, the 30 queues that need a look first, and the 10 workers with the most tasks.
-- `ended_s` is how many tasks ended in a second since this was shown before; for that the session's
-- setting scylla_top.seen keeps what was seen. In `tasks`, # are running and - are ready tasks.
with queue as (
    select q.queue, q.waiting, q.ready, q.running, q.completed + q.aborted + q.cancelled as ended,
        q.oldest_ready,
        concat_ws(', ', case when q.paused then 'paused' end,
            case when q.running >= q.max_running then 'max_running ' || q.max_running end,
            case when q.ready >= q.max_ready then 'max_ready ' || q.max_ready end,
            case when q.ready > 0 and q.max_per_second > 0
                then 'max_per_second ' || q.max_per_second end) as held_by
    from scylla.queues q
),
seen as (
    select nullif(current_setting('scylla_top.seen', true), '')::jsonb as before,
        set_config('scylla_top.seen', jsonb_build_object('at', clock_timestamp(), 'ended',
            (select coalesce(jsonb_object_agg(queue, ended), '{}') from queue))::text, false)::jsonb as now
),
rate as (
    select e.queue, round((e.ended::bigint - (s.before -> 'ended' ->> e.queue)::bigint) / nullif(
        extract(epoch from (s.now ->> 'at')::timestamptz - (s.before ->> 'at')::timestamptz), 0), 1) as ended_s
    from seen s, jsonb_each_text(s.now -> 'ended') e (queue, ended)
),
line as (
    select 0 as part, 0::bigint as place, format('%s queues', count(*)) as what,
        sum(q.waiting) as waiting, sum(q.ready) as ready, sum(q.running) as running,
        sum(r.ended_s) as ended_s, max(q.oldest_ready) as oldest_ready, null::interval as last_seen,
        '' as held_by
    from queue q
    left join rate r using (queue)
    union all
    select 1, row_number() over (order by q.held_by = '', q.oldest_ready desc nulls last,
            q.running desc, q.queue),
        q.queue, q.waiting, q.ready, q.running, r.ended_s, q.oldest_ready, null, q.held_by
    from queue q
    left join rate r using (queue)
    union all
    select 2, row_number() over (order by w.running desc, w.last_seen), format('%s: %s', w.queue, w.worker),
        null, null, w.running, null, null, clock_timestamp() - w.last_seen,
        case when w.next_deadline < clock_timestamp() then 'lease expired' else '' end
    from scylla.workers w
)
select case part when 0 then 'all' when 1 then 'queue' else 'worker' end as kind, what, waiting, ready,
    running, ended_s, date_trunc('second', oldest_ready) as oldest_ready,
    date_trunc('second', last_seen) as last_seen,
    rpad(repeat('#', ceil(20 * running / most)::int) || repeat('-', ceil(20 * coalesce(ready, 0) / most)::int), 20) as tasks,
    held_by
from (
    select *, greatest(max(running + coalesce(ready, 0)) over (partition by part), 1) as most from line
) line
where place <= case part when 2 then 10 else 30 end
order by part, place;
