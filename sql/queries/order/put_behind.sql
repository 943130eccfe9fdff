-- Puts all first tasks of some groups but the oldest of each behind that one, except those whose rows are
-- locked.
-- Parameters, arrays of one length: $1 queues that keep the order, $2 hashes of the groups' keys; $3 the
--   hash of the tasks without a group, $4 how many of each group at most.
-- Result: of each task that is to go behind the number of its group, and whether it went.
-- Reads scylla.task through the indexes task_first and task_lane, of the tasks without a group all that are
--   ready; changes scylla.task. Never waits for a row.
with extra as materialized (
    select n.number, f.id, f.ctid
    from unnest($1, $2) with ordinality as n (queue, hash, number)
    cross join lateral (
        select o.id, o.ctid
        from (
            (
                select t.id, t.ctid, t.created
                from scylla.task t
                where t.queue = n.queue
                    and scylla._group_hash(coalesce(t.group_key, '')) = n.hash
                    and (t.ready or t.held)
                    and not t.behind
                    and (t.group_key is not null or t.held)
                order by t.created, t.id
                limit $4 + 1
            )
            union all
            (
                select t.id, t.ctid, t.created
                from scylla.task t
                where n.hash = $3
                    and t.queue = n.queue
                    and t.ready
                    and not t.behind
                    and t.group_key is null
            )
        ) o
        order by o.created, o.id
        offset 1
        limit $4
    ) f
), free as (
    select l.ctid
    from extra x
    cross join lateral (
        select o.ctid
        from scylla.task o
        where o.ctid = x.ctid and (o.ready or o.held) and not o.behind
        offset 0
        for no key update skip locked
    ) l
), done as (
    update scylla.task t
    set behind = true
    where t.ctid = any (array(select f.ctid from free f))
    returning t.id
)
select x.number, d.id is not null
from extra x
left join done d on d.id = x.id
