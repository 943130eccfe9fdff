-- Submits runs of schedules.
-- Parameters, arrays of one length: $1 the tasks' ids, $2 their schedules, $3 keys, $4 created, $5 groups.
-- Result: of each task inserted the id, and whether it is behind others; one whose key is a live task's is passed over.
-- Reads scylla.schedule, rows that the caller has locked, and scylla.queue by primary key; changes scylla.task. Waits for
-- another transaction that inserts the same key.
insert into scylla.task
    (id, queue, action, priority, ready, post_result, created, updated, timeout, max_tries, key,
    schedule, retry_interval, retry_jitter, spec, role, database, command, group_key, behind,
    database_oid, meta)
select r.id, s.queue, s.action, s.priority, true, false, r.created,
    least(r.created, pg_catalog.clock_timestamp()), s.timeout, s.max_tries,
    r.key, s.id, s.retry_interval, s.retry_jitter, s.spec,
    case when s.command is not null then s.owner end, s.database, s.command, r.group_key,
    exists (
        select from scylla.queue q where q.queue = s.queue and q.max_running_per_group = 1
    ),
    s.database_oid, s.meta
from unnest($1, $2, $3, $4, $5) as r (id, schedule, key, created, group_key)
join scylla.schedule s on s.id = r.schedule
where s.id = any ($2)
on conflict do nothing
returning id, behind
