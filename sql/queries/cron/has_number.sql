-- Whether a schedule has a number.
-- Parameters: $1 the number. Result: a row when one has.
-- Reads scylla.schedule by primary key; changes and locks nothing.
select true from scylla.schedule s where s.id operator(pg_catalog.=) $1
