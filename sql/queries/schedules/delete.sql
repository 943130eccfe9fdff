-- Deletes a schedule, with its runs that were missed.
-- Parameters: $1 its name. Result: its id; no row when no schedule has it.
-- Reads scylla.schedule through the index schedule_name; changes scylla.schedule and scylla.missed.
-- Locks the row, waiting for another transaction that has it.
with gone as (
    delete from scylla.schedule s where s.name = $1 returning s.id
), forgotten as (
    delete from scylla.missed m where m.schedule = any (array(select g.id from gone g))
)
select g.id from gone g
