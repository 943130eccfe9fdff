-- The workers that are asked to stop.
-- No parameters. Result: their names. Reads scylla.worker; changes and locks nothing.
select w.name from scylla.worker w where w.draining
