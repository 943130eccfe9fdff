-- Whether a schedule has a name.
-- Parameters: $1 the name. Result: a row when one has.
-- Reads scylla.schedule through the index schedule_name; changes and locks nothing.
select true from scylla.schedule s where s.name = $1
