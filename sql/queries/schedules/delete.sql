-- Deletes a schedule, with its runs that were missed.
-- Parameters: $1 its id.
-- Reads scylla.schedule by primary key; changes it, a row that the caller has locked, and
-- scylla.missed.
with gone as (
    delete from scylla.schedule s where s.id = $1 returning s.id
)
delete from scylla.missed m where m.schedule = any (array(select g.id from gone g))
