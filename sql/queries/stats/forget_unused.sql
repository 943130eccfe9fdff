-- Forgets the totals of queues that have nothing else, and were not used for a day.
-- Parameters: $1 now; $2 queues that workers serve.
-- Result: how many went.
-- A queue that has something is looked at again in an hour.
-- Reads scylla.queue_total, and of each such queue scylla.queue, scylla.privilege, scylla.schedule,
-- scylla.task and scylla.finished through their indexes by queue; changes scylla.queue_total. Locks its rows,
-- passing over those that another transaction has locked (I10).
with old as materialized (
    select t.queue
    from scylla.queue_total t
    where t.used < $1 - interval '1 day'
    order by t.used
    limit 100
    for update skip locked
), seen as materialized (
    -- no `exists`: it may be planned to read all rows once
    select o.queue,
        o.queue = any ($2) or coalesce(
            (select true from scylla.queue q where q.queue = o.queue),
            (select true from scylla.privilege p where p.queue = o.queue limit 1),
            (select true from scylla.schedule s where s.queue = o.queue limit 1),
            (
                select true from scylla.task t
                where t.queue = o.queue and t.ready and not t.behind and t.group_key is null
                limit 1
            ),
            (
                select true from scylla.task t
                where t.queue = o.queue and t.ready and t.group_key is not null
                limit 1
            ),
            (select true from scylla.task t where t.queue = o.queue and t.behind limit 1),
            (select true from scylla.task t where t.queue = o.queue and not t.ready limit 1),
            (select true from scylla.finished f where f.queue = o.queue limit 1),
            false) as has_something
    from old o
), kept as (
    update scylla.queue_total t
    set used = $1 - interval '23 hours'
    where t.queue = any (array(select k.queue from seen k where k.has_something))
), gone as (
    delete from scylla.queue_total t
    where t.queue = any (array(select u.queue from seen u where not u.has_something))
    returning t.queue
)
select count(*) from gone
