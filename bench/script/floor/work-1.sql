-- One row, by its primary key.
\set n random(1, 100000)
update reference.task
set tries = tries + 1, updated = clock_timestamp()
where id = lpad(to_hex(:n::bigint), 32, '0')::uuid;
