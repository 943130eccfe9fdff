-- Reads the next :size tasks, and settles them, each in a transaction of its own.
select nextval('appended.batch') as batch \gset
select array_agg(id) as ids, array_agg(gen_random_uuid()) as tokens from appended.live where id = any (array(select appended.id((:batch - 1) * :size + n) from generate_series(1, :size) n)) \gset
with done as (insert into appended.settled (id, updated, status, owner) select id, clock_timestamp(), 1, 'bench' from unnest(:ids::uuid[]) id returning id) select 1 / (count(*) = :size)::int from done;
