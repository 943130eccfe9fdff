-- A number for a new schedule.
-- No parameters. Result: the number. Changes the sequence; locks nothing.
select pg_catalog.nextval('scylla.schedule_id_seq'::pg_catalog.regclass)
