-- Counts settled predecessors down from the tasks that wait for them; a task whose last one it was
-- is ready, or due at its time.
-- Parameters: $1 now; arrays of one length: $2 the tasks, $3 how many predecessors have settled, $4
--   how many of these failed, $5 when each was submitted, or null: another task may have got its
--   id meanwhile.
-- Result: of each task counted down its id, whether it is ready now, when it is due, and its lane,
--   rank and lease length, its group, and whether it is behind others of that; a task that is
--   locked, or not live, is passed over.
-- Reads scylla.task and scylla.queue by primary key; changes scylla.task. Never waits for a row.
with free as (
    select t.id from scylla.task t where t.id = any ($2) for no key update skip locked
)
update scylla.task t
set pending = t.pending - s.settled,
    num_failures = t.num_failures + s.failed,
    ready = t.pending = s.settled and (t.run_at is null or t.run_at <= $1),
    due = case when t.pending = s.settled and t.run_at > $1 then t.run_at end,
    message = case when t.pending > s.settled or t.run_at > $1 then t.message end,
    behind = t.pending = s.settled and (t.run_at is null or t.run_at <= $1) and exists (
        select from scylla.queue q where q.queue = t.queue and q.max_running_per_group = 1
    ),
    updated = $1
from unnest($2, $3, $4, $5) as s (task, settled, failed, created)
where t.id = any (array(select f.id from free f)) and t.id = s.task
    and (s.created is null or s.created = t.created)
returning t.id, t.ready, t.due, t.queue, t.action, t.priority, t.created, t.timeout,
    t.group_key, t.behind
