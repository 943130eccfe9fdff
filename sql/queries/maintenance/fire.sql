-- Makes tasks ready whose time has come, and forgets the ids of the messages among them.
-- Parameters: $1 ids, $2 until when, $3 now.
-- Result: of each that fired the id, lane, rank, lease length, group and run_at; one that is not live any more, or
--   was delayed meanwhile, is passed over.
-- Reads scylla.task by primary key; changes scylla.task. Locks the rows in primary-key order; the
--   scheduler holds them already.
update scylla.task t
set ready = true, held = false, due = null, message = null, updated = $3
where t.id = any ($1)
    -- no search by time: the ids are few
    and (t.due <= $2) is true
returning t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key,
    t.run_at
