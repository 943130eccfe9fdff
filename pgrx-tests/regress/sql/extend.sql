-- Extending a lease: the deadline becomes now plus the length, whatever it was.
create function seconds_left(task uuid) returns numeric language sql
return round(extract(epoch from (scylla.task(task) ->> 'deadline')::timestamptz - clock_timestamp()) / 10) * 10;
select scylla.submit('extend', timeout => '1 hour') as id \gset
select token from scylla.own_tasks('w', 'extend', timeout => '2 hours') \gset
select scylla.extend(:'id', :'token', '1 day'), seconds_left(:'id');
select scylla.extend(:'id', :'token', '30 s'), seconds_left(:'id');
-- Default: the length with which the lease was taken.
select scylla.extend(:'id', :'token'), seconds_left(:'id');
select scylla.extend(:'id', :'token', '100 years'), scylla.task(:'id') -> 'deadline' as deadline;
select scylla.extend(:'id', :'token', '99 years'), scylla.task(:'id') -> 'deadline' <> 'null' as has_a_deadline;

-- Progress: kept when not given, and may decrease.
select scylla.task(:'id') -> 'progress' as progress;
select scylla.extend(:'id', :'token', progress => 0.75), scylla.task(:'id') -> 'progress' as progress;
select scylla.extend(:'id', :'token'), scylla.task(:'id') -> 'progress' as progress;
select scylla.extend(:'id', :'token', progress => 0.25), scylla.task(:'id') -> 'progress' as progress;
select scylla.extend(:'id', :'token', null, 1), scylla.task(:'id') -> 'progress' as progress, scylla.task(:'id') -> 'status' as status;
select scylla.extend(:'id', :'token', progress => 0), scylla.task(:'id') -> 'progress' as progress;

-- It is not transactional, writes no row and takes no transaction id.
begin;
select scylla.extend(:'id', :'token', '3 hours', 0.5), pg_current_xact_id_if_assigned();
rollback;
select seconds_left(:'id'), scylla.task(:'id') -> 'progress' as progress,
    scylla.task(:'id') -> 'updated' = scylla.task(:'id') -> 'created' as never_written;

-- A wrong token: false, and nothing changes.
select scylla.extend(:'id', '00000000-0000-4000-8000-000000000000', '1 s', 0.9);
select scylla.extend('00000000-0000-4000-8000-00000000003f', :'token');
select seconds_left(:'id'), scylla.task(:'id') -> 'progress' as progress;

-- Many: an answer for each, in their order; the same pair twice is true twice.
select count(scylla.submit('extend.many')) from generate_series(1, 3);
create temp table held as select * from scylla.own_tasks('w', 'extend.many', 3, timeout => '1 hour');
select scylla.extend_tasks(array_agg(id order by id), array_agg(token order by id), '1 min') from held;
select scylla.extend_tasks(array_agg(id order by id), array_agg(token order by token), '1 min')
    = array_agg(rank_by_id = rank_by_token order by id) as only_where_they_match
from (select *, rank() over (order by id) as rank_by_id, rank() over (order by token) as rank_by_token from held) as h;
select scylla.extend_tasks(array[id, gen_random_uuid(), id], array[token, token, token])
from held limit 1;
select scylla.extend_tasks('{}', '{}');

-- B31: no longer the owner: false.
select scylla.return_task(:'id', :'token', 'yield');
select scylla.extend(:'id', :'token');
select token as second from scylla.own_tasks('w2', 'extend') \gset
select scylla.extend(:'id', :'token'), scylla.extend(:'id', :'second');
select scylla.cancel(:'id');
select scylla.extend(:'id', :'second');
drop function seconds_left;
