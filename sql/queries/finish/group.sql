-- The unfinished tasks of a group.
-- Parameters: $1 queue, $2 the group's key. Result: their ids.
-- Reads scylla.task through the indexes task_first, task_behind and task_group; changes and locks nothing.
select t.id
from scylla.task t
where t.queue = $1
    and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash($2)
    and t.group_key is not null
    and (t.ready or t.held)
    and not t.behind
union all
select t.id
from scylla.task t
where t.queue = $1
    and scylla._group_hash(coalesce(t.group_key, '')) = scylla._group_hash($2)
    and t.group_key is not null
    and t.behind
union all
select t.id
from scylla.task t
where t.queue = $1
    and scylla._group_hash(t.group_key) = scylla._group_hash($2)
    and t.group_key is not null
    and not (t.ready or t.held)
