-- Delays one message, by 3 to 10 seconds.
\set id random(1, 1000000000000)
\set wait random(3000, 10000)
select 1 / scylla.delay('m' || :id, clock_timestamp() + :wait * interval '1 ms', 'fire', 'a value')::int;
