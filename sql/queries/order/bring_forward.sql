-- Brings the oldest tasks of some groups forward that stand behind, except those whose rows are locked.
-- Parameters, arrays of one length: $1 queues, $2 hashes of the groups' keys, $3 how many of each group at
--   most.
-- Result: of each task that is to come forward the number of its group, and if it came its id, queue,
--   action, priority, created, timeout, group_key, run_at, and whether it is ready.
-- Reads scylla.task through the index task_behind; changes scylla.task. Never waits for a row.
with next as materialized (
    select n.number, b.id, b.ctid
    from unnest($1, $2, $3) with ordinality as n (queue, hash, most, number)
    cross join lateral (
        select t.id, t.ctid
        from scylla.task t
        where t.queue = n.queue and t.behind and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
        order by t.created, t.id
        limit n.most
    ) b
), free as (
    select l.ctid
    from next x
    cross join lateral (
        select o.ctid from scylla.task o where o.ctid = x.ctid and o.behind
        offset 0
        for no key update skip locked
    ) l
), done as (
    update scylla.task t
    set behind = false
    where t.ctid = any (array(select f.ctid from free f))
    returning t.id, t.queue, t.action, t.priority, t.created, t.timeout, t.group_key, t.run_at, t.ready
)
select x.number, d.*
from next x
left join done d on d.id = x.id
