-- Notes which runs that were missed are left.
-- Parameters: $1 the schedule, $2 the end of these runs, $3 the first that is left; null: none.
-- Reads scylla.missed by primary key; changes it, a row that the caller has locked.
with gone as (
    delete from scylla.missed m where m.schedule = $1 and m.until = $2 and $3 is null
)
update scylla.missed m set next_run = $3
where m.schedule = $1 and m.until = $2 and $3 is not null
