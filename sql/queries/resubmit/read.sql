-- What a resubmission copies of aborted and cancelled tasks.
-- Parameters: $1 ids. Result: of each such task the id and its fields; others are passed over.
-- Reads scylla.finished by id; changes nothing. Locks the tasks' rows in the order of their ids, waiting for
-- other transactions' locks.
select f.id, f.queue, f.action, f.priority, f.spec, f.key, f.max_tries, f.retry_interval,
    f.retry_jitter, f.timeout, f.post_result, f.role::oid, f.database, f.command,
    f.group_key, f.database_oid::oid, f.meta
from scylla.finished f
where f.id = any ($1) and f.status in ('aborted', 'cancelled')
order by f.id
for no key update
