-- Forgets the runs of schedules that are gone.
-- No parameters. Reads all of scylla.run_count, and scylla.schedule by primary key; changes
-- scylla.run_count.
delete from scylla.run_count c
where (select true from scylla.schedule s where s.id = c.schedule) is null
