-- Forgets a queue: its settings, its totals, the keys that it keeps, and what was granted on it.
-- Parameters: $1 queue. Result: whether there was any of it.
-- Changes scylla.queue, scylla.privilege, scylla.queue_total and scylla.kept_key by the queue's name. The
-- caller has locked the first two tables, against others that change them.
with settings as (
    delete from scylla.queue q where q.queue = $1 returning q.queue
), grants as (
    delete from scylla.privilege p where p.queue = $1 and p.queue <> '*' returning p.queue
), totals as (
    delete from scylla.queue_total t where t.queue = $1 returning t.queue
), keys as (
    delete from scylla.kept_key k where k.queue = $1
)
select exists (select from settings) or exists (select from grants) or exists (select from totals)
