-- What a resubmission copies of aborted and cancelled tasks.
-- Parameters: $1 ids. Result: of each such task the id and its fields; others are passed over.
-- Reads scylla.finished by id; changes and locks nothing.
select f.id, f.queue, f.action, f.priority, f.spec, f.key, f.max_tries, f.retry_interval,
    f.retry_jitter, f.timeout, f.post_result, f.role::oid, f.database, f.command,
    f.group_key, f.database_oid::oid
from scylla.finished f
where f.id = any ($1) and f.status in ('aborted', 'cancelled')
