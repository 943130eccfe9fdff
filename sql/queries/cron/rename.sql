-- Gives a job another name.
-- Parameters: $1 its number, as text, $2 the name, null: none.
-- Changes scylla.schedule by primary key, a row that the caller has locked.
update scylla.schedule s
set job = $2
where s.id operator(pg_catalog.=) $1::pg_catalog.int8
