-- Makes only critical queues hand out tasks, or all queues again.
-- Parameters: $1 whether only critical ones do. Changes scylla.incarnation, which the caller has
-- locked.
update scylla.incarnation set critical_only = $1 where critical_only <> $1
