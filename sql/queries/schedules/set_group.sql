-- Sets the group of the runs of a schedule of SQL commands.
-- Parameters: $1 its id, $2 the group; null: that of the runs' role. No result.
-- Changes scylla.schedule by primary key, a row that the caller has locked.
update scylla.schedule s
set group_key = $2
where s.id = $1 and s.group_key is distinct from $2
