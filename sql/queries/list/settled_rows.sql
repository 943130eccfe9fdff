-- Settled tasks as the view tasks shows them.
-- Parameters: arrays of one length: $1 ids, $2 when each settled; $3 the role for which it is.
-- Result: the columns of the view, in no order.
-- Reads scylla.finished by id, in the partition of the time; changes and locks nothing.
select f.id, f.queue, f.action, f.key, f.spec, f.priority, f.status, f.progress, f.created, f.updated,
    f.run_at, null::timestamptz as deadline, f.owner, f.tries, f.max_tries, f.num_failures,
    coalesce(f.after, '{}') as after, f.errors, f.result,
    scylla._history_with(f.history, f.owner, f.owned_at) as history, f.group_key, f.resubmitted_from,
    pg_get_userbyid(f.role::oid) as role, f.database,
    case when pg_has_role($3, f.role::oid, 'usage') then f.command end as command, f.meta
from unnest($1, $2) as l (id, updated)
cross join lateral (
    select o.* from scylla.finished o where o.id = l.id and o.updated = l.updated limit 1
) f
