-- Whether a role has a job of a name.
-- Parameters: $1 the job's name, $2 the role. Result: a row when it has.
-- Reads scylla.schedule through the index schedule_job; changes and locks nothing.
select true from scylla.schedule s where {which}
