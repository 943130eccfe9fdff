-- Adds what was counted since the last time to the totals of queues.
-- Parameters, arrays of one length: $1 queues, $2 since when each is counted; $3 the numbers of all
--   queues behind each other, of each first the events, then the two histograms; $4 how many events
--   there are, $5 how many buckets.
-- Changes scylla.queue_total. Only the scheduler writes it, so that it waits for no other transaction.
insert into scylla.queue_total as t (queue, since, events, ready_to_owned, owned_to_settled)
select q.queue, q.since,
    n.numbers[:$4], n.numbers[$4 + 1:$4 + $5], n.numbers[$4 + $5 + 1:]
from unnest($1, $2) with ordinality as q (queue, since, n)
cross join lateral (
    select $3[(q.n - 1) * ($4 + 2 * $5) + 1:q.n * ($4 + 2 * $5)] as numbers
) n
on conflict (queue) do update
set (events, ready_to_owned, owned_to_settled) = (
    select array_agg(u.a + u.x order by u.n) filter (where u.n <= $4),
        array_agg(u.b + u.y order by u.n), array_agg(u.c + u.z order by u.n)
    from unnest(t.events, excluded.events, t.ready_to_owned, excluded.ready_to_owned,
        t.owned_to_settled, excluded.owned_to_settled)
        with ordinality as u (a, x, b, y, c, z, n)
)
