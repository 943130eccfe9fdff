-- :size rows, by their primary keys. Each client has rows of its own.
\set first :client_id * (100000 / :clients) + random(1, 100000 / :clients - :size)
update reference.task
set tries = tries + 1, updated = clock_timestamp()
where id = any (array(select lpad(to_hex(:first::bigint + n), 32, '0')::uuid from generate_series(0, :size - 1) n));
