-- Gives one live task that is not owned another time. One that was ready keeps its position in its group.
-- Parameters: $1 id, $2 when, $3 whether that has come, $4 now.
-- Result: whether it is ready now, and when the scheduler is to make it so; both null: it waits for
--   others first, or never waited; whether it is behind others of its group.
-- Reads scylla.task and scylla.queue by primary key; changes it, and locks its row, which the caller holds already.
update scylla.task t
set run_at = $2, updated = $4,
    ready = t.pending = 0 and $3,
    held = t.pending = 0 and not $3 and (t.ready or t.held),
    behind = case
        when t.ready or t.held then t.behind
        else t.pending = 0 and $3 and exists (
            select from scylla.queue q where q.queue = t.queue and q.max_running_per_group = 1
        )
    end,
    due = case when t.pending = 0 and not $3 then $2 end,
    message = case when t.pending > 0 or not $3 then t.message end
where t.id = $1
returning t.ready, t.due, t.behind
