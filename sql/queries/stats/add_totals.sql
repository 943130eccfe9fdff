-- Adds what was counted since the last time to the totals of queues.
-- Parameters, arrays of one length: $1 queues, $2 since when each is counted; $3 the numbers of all
--   queues behind each other, of each first the events, then the two histograms, then their two sums; $4
--   how many events there are, $5 how many buckets.
-- Result: the queues whose totals were written.
-- Changes scylla.queue_total. Locks its rows, passing over those that another transaction has locked (I10):
-- it drops the queue.
with free as (
    select q.queue
    from unnest($1) as q (queue)
    -- no `exists`: it may be planned to read all rows once
    where (select true from scylla.queue_total t where t.queue = q.queue) is null
), known as materialized (
    select t.queue
    from scylla.queue_total t
    where t.queue = any ($1)
    for update skip locked
)
insert into scylla.queue_total as t
    (queue, since, events, ready_to_owned, owned_to_settled, used, ready_to_owned_sum,
    owned_to_settled_sum)
select q.queue, q.since,
    n.numbers[:$4], n.numbers[$4 + 1:$4 + $5], n.numbers[$4 + $5 + 1:$4 + 2 * $5], now(),
    n.numbers[$4 + 2 * $5 + 1], n.numbers[$4 + 2 * $5 + 2]
from unnest($1, $2) with ordinality as q (queue, since, n)
cross join lateral (
    select $3[(q.n - 1) * ($4 + 2 * $5 + 2) + 1:q.n * ($4 + 2 * $5 + 2)] as numbers
) n
where q.queue in (select f.queue from free f union all select k.queue from known k)
on conflict (queue) do update
set (events, ready_to_owned, owned_to_settled) = (
        select array_agg(u.a + u.x order by u.n) filter (where u.n <= $4),
            array_agg(u.b + u.y order by u.n), array_agg(u.c + u.z order by u.n)
        from unnest(t.events, excluded.events, t.ready_to_owned, excluded.ready_to_owned,
            t.owned_to_settled, excluded.owned_to_settled)
            with ordinality as u (a, x, b, y, c, z, n)
    ),
    used = excluded.used,
    ready_to_owned_sum = t.ready_to_owned_sum + excluded.ready_to_owned_sum,
    owned_to_settled_sum = t.owned_to_settled_sum + excluded.owned_to_settled_sum
returning t.queue
