-- The next messages of a queue that contain a part, read or not.
-- Parameters: $1 queue, $2 the part, $3 and $4 when the one before was sent and its id, $5 how many.
-- Result: id, when it was sent.
-- Reads scylla.task through the index task_lane; changes and locks nothing.
select t.id, t.created
from scylla.task t
where t.queue = $1 and t.action = 'pgmq' and - t.priority = 0
    and t.ready and not t.behind and t.group_key is null
    and t.spec @> $2
    and (t.created, t.id) > ($3, $4)
order by t.created, t.id
limit $5
