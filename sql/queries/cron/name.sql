-- Names the schedule of a new job after its number.
-- Parameters: $1 the number, $2 the job's name, null: it has none.
-- Changes scylla.schedule by primary key.
update scylla.schedule s
set name = 'cron:' operator(pg_catalog.||) s.id::pg_catalog.text, job = $2
where s.id operator(pg_catalog.=) $1
