-- Asks a worker to stop.
-- Parameters: $1 the worker's name, $2 whether the board knows it.
-- Result: a row when there is such a worker.
-- Reads scylla.worker by primary key; changes it. Waits for another transaction that asks the same worker.
insert into scylla.worker as w (name, draining, since)
select $1, true, pg_catalog.clock_timestamp()
where $2 or exists (select from scylla.worker o where o.name = $1)
on conflict (name) do update set draining = true, since = pg_catalog.clock_timestamp()
returning true
