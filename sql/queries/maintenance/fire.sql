-- Makes tasks ready whose time has come, and forgets the ids of the messages among them.
-- Parameters: $1 ids, $2 until when, $3 now.
-- Result: of each that fired the id, lane, rank, lease length, group and run_at, and whether it
--   is behind others of its group; one that is not live any more, or
--   was delayed meanwhile, is passed over.
-- Reads scylla.task and scylla.queue by primary key; changes scylla.task. Locks the rows in primary-key order; the
--   scheduler holds them already.
update scylla.task t
set ready = true, held = false, due = null, message = null, updated = $3,
    behind = case
        when t.held then t.behind
        else exists (
            select from scylla.queue q where q.queue = t.queue and q.max_running_per_group = 1
        )
    end
where t.id = any ($1)
    -- no search by time: the ids are few
    and (t.due <= $2) is true
returning t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key,
    t.run_at, t.behind
