-- Makes the schedules due that run at a start.
-- Parameters: $1 when it was, $2 now.
-- Result: how many are due now, and how many another transaction has locked.
-- Reads scylla.schedule; changes it. Locks its rows, waiting for none.
with starts as (
    select s.id
    from scylla.schedule s
    where s.active
        and s.next_run is null
        and pg_catalog.lower(pg_catalog.btrim(s.schedule, E' \t\n\r\f')) in ('@reboot', '@restart')
        and coalesce(s.last_run < $1, true)
        and coalesce(s.starts_at <= $1, true)
        and coalesce(s.ends_at >= $1, true)
), locked as (
    select s.id
    from scylla.schedule s
    where s.id in (select i.id from starts i) and s.active and s.next_run is null
    for update skip locked
), due as (
    update scylla.schedule s set next_run = $2 where s.id in (select l.id from locked l) returning s.id
)
select (select pg_catalog.count(*) from due),
    (select pg_catalog.count(*) from starts) - (select pg_catalog.count(*) from due)
