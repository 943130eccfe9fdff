-- Notes that this database makes days of its own.
-- No parameters. Changes scylla.incarnation.
update scylla.incarnation set used = true where not used
