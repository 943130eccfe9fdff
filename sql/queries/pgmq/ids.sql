-- The messages of a queue.
-- Parameters: $1 queue. Result: the ids of its live tasks, in their order.
-- Reads scylla.task by its indexes of queues; changes and locks nothing.
with live as (
    select t.id
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is null
    union all
    select t.id
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.ready and not t.behind and t.group_key is not null
    union all
    select t.id
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and t.behind
    union all
    select t.id
    from scylla.task t
    where t.queue = $1 and t.action = 'pgmq' and not t.ready and not t.behind
)
select t.id from live t order by t.id
