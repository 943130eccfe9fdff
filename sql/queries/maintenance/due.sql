-- What falls due, in due order, and when the next does that is not due yet.
-- Parameters: $1 due, $2 id of the first that counts, $3 until when, $4 how many.
-- Result: id, due; the row of what comes next has no id.
-- Reads scylla.task through the index task_due, nothing before the first; changes and locks
--   nothing.
(
    select t.id, t.due
    from scylla.task t
    where t.due is not null and t.due <= $3
        and (t.due, t.id) >= ($1, $2)
    order by t.due, t.id
    limit $4
)
union all
(
    select null, t.due
    from scylla.task t
    where t.due is not null and t.due > $3
    order by t.due, t.id
    limit 1
)
