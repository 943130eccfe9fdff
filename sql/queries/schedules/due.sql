-- The schedules whose next run is due, in due order, and when the next one is due that is not yet.
-- Parameters: $1 due, $2 id of the first that counts, $3 until when, $4 how many.
-- Result: id, due; the row of what comes next has no id.
-- Reads scylla.schedule through the index schedule_next, nothing before the first; changes and locks
-- nothing.
(
    select s.id, s.next_run
    from scylla.schedule s
    where s.next_run is not null and s.next_run <= $3
        and (s.next_run, s.id) >= ($1, $2)
    order by s.next_run, s.id
    limit $4
)
union all
(
    select null, s.next_run
    from scylla.schedule s
    where s.next_run is not null and s.next_run > $3
    order by s.next_run, s.id
    limit 1
)
