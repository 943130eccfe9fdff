-- What each source's query becomes. The program puts in that query, the priority of a job with the
-- peer's default one, and whether jobs that run are taken.
with job as (
    select id, queue, action, attempts, key, group_key, created, place, number,
        coalesce(nullif(spec, 'null'), '{}') as spec,
        least(greatest($base + urgency, 0), 4294967295) as priority,
        case when run_at > now() then run_at end as run_at,
        case when max_tries is not null then greatest(max_tries - attempts, 1) end as max_tries,
        retry_interval,
        case when not $running or held <> 'running' then held end as held,
        jsonb_build_object('imported', more || jsonb_build_object(
            'from', $peer, 'id', id, 'created', created, 'attempts', attempts)) as meta,
        notes || array[
            case when attempts > 0 and max_tries is null then
                'made attempts: they are in meta only, and max_tries counts from 0' end,
            case when attempts > 0 and max_tries is not null then
                'made attempts: max_tries is what was left, and pauses between retries begin with the shortest' end,
            case when $base + urgency not between 0 and 4294967295 then
                'priority: it does not fit; choose another --base-priority' end,
            case when octet_length(queue) not between 1 and 48 or octet_length(action) > 128
                or octet_length(key) not between 1 and 256 or octet_length(group_key) not between 1 and 256 then
                'too long a name: it will be refused (queue 48 bytes, action 128, key and group 256)' end
        ] as notes,
        -- Of version 8, the same in each run.
        overlay(overlay(encode(substring(sha256(convert_to(
            concat_ws(chr(31), $peer, current_database(), $place, id, extract(epoch from created)), 'UTF8'
        )) for 16), 'hex') placing '8' from 13) placing '8' from 17)::uuid as task
    from ($jobs) as source
)
