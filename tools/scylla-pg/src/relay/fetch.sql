-- Rows of the outbox, by $1, their numbers. Members that are null have their defaults.
select o.id, (jsonb_build_object('queue', o.queue, 'spec', o.spec, 'id', o.id)
    || case when o.action = '' then '{}' else jsonb_build_object('action', o.action) end
    || case when o.priority = 0 then '{}' else jsonb_build_object('priority', o.priority) end
    || case when o.group_key is null then '{}' else jsonb_build_object('group_key', o.group_key) end
    || case when o.meta is null then '{}' else jsonb_build_object('meta', o.meta) end
    || case when o.key is null and o.run_at is null and o.after is null and o.max_tries is null
            and o.retry_interval is null and o.retry_jitter is null and o.timeout is null
            and not o.post_result then '{}'
        else jsonb_build_object('key', o.key, 'on_conflict', o.on_conflict, 'run_at', o.run_at,
            'after', o.after, 'on_failure', o.on_failure, 'max_tries', o.max_tries,
            'retry_interval', o.retry_interval, 'retry_jitter', o.retry_jitter,
            'timeout', o.timeout, 'post_result', o.post_result, 'unique_for', o.unique_for) end)::text
from scylla.outbox o
where o.seq = any ($1::bigint[])
order by o.seq
