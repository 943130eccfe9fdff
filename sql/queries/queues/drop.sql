-- Forgets a queue: its settings, its totals, and what was granted on it.
-- Parameters: $1 queue. Result: whether there was any of it.
-- Changes scylla.queue, scylla.privilege and scylla.queue_total by the queue's name. The caller has locked the
-- first two tables, against others that change them.
with settings as (
    delete from scylla.queue q where q.queue = $1 returning q.queue
), grants as (
    delete from scylla.privilege p where p.queue = $1 and p.queue <> '*' returning p.queue
), totals as (
    delete from scylla.queue_total t where t.queue = $1 returning t.queue
)
select exists (select from settings) or exists (select from grants) or exists (select from totals)
