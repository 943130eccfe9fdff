-- Inserts messages of one queue, each as a task: waiting for its deadline under its id, or ready
-- when that has come.
-- Parameters: $1 queue; arrays of one length: $2 the tasks' ids, $3 the messages' ids, no two
--   alike, $4 deadlines, $5 whether they have come, $6 specs, $7 created; $8 the role that sends
--   them; $9 an array of their groups, null where they have none.
-- Result: of each task inserted the id, and whether it is behind others of its group; a message whose id waits already is passed over.
-- Reads scylla.task through the index task_message, and scylla.queue by primary key; changes scylla.task. Waits for transactions
--   that insert a message of the same id; locks only what it inserts, in the order given.
insert into scylla.task
    (id, queue, action, priority, ready, post_result, created, updated, run_at, due, message,
    group_key, sender, spec, behind)
select m.id, $1, '', 0, m.has_come, false, m.created,
    least(m.created, pg_catalog.clock_timestamp()), m.deadline,
    case when not m.has_come then m.deadline end,
    case when not m.has_come then m.message end,
    m.group_key,
    case when not m.has_come then $8::scylla.role end,
    m.spec,
    m.has_come and exists (
        select from scylla.queue q where q.queue = $1 and q.max_running_per_group = 1
    )
from unnest($2, $3, $4, $5, $6, $7, $9)
    as m (id, message, deadline, has_come, spec, created, group_key)
where (select true from scylla.task t where t.queue = $1 and t.message = m.message) is null
on conflict (queue, message) where message is not null do nothing
returning id, behind
