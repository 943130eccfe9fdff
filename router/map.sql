-- The map: which shards there are, and where each queue is.

create schema router;
create schema scylla;
comment on schema router is 'the map of the shards, and what the functions of scylla are made of';
comment on schema scylla is 'the functions and views of scylla, each over the shards';

create table router.shard (
    shard smallint not null constraint shard_number check (shard between 0 and 255),
    connection text not null,
    weight double precision not null default 1
        constraint shard_weight check (weight > 0 and weight < 'infinity'),
    state text not null default 'active' constraint shard_state check (state in ('active', 'draining')),
    constraint shard_pkey primary key (shard)
);
comment on table router.shard is 'the databases that hold tasks';
comment on column router.shard.shard is 'scylla.shard of that database';
comment on column router.shard.connection is 'how to reach it, without user and password';
comment on column router.shard.weight is 'its part of new queues and of the tasks of spread queues';
comment on column router.shard.state is 'active; draining: it gets no new queue and no task of a spread queue';

create table router.queue (
    queue text not null collate "C" constraint queue_name check (octet_length(queue) between 1 and 48),
    shard smallint constraint queue_shard references router.shard,
    moving_to smallint constraint queue_moving references router.shard,
    paused boolean not null default false,
    constraint queue_pkey primary key (queue),
    constraint queue_spread check (shard is not null or moving_to is null)
);
comment on table router.queue is 'where each queue is';
comment on column router.queue.queue is 'the queue';
comment on column router.queue.shard is 'the shard that has its tasks; null: spread over all';
comment on column router.queue.moving_to is 'where router.move_queue() takes it; null: nowhere';
comment on column router.queue.paused is 'whether it was paused before it began to move';

create table router.worker (
    name text not null collate "C",
    meta jsonb not null,
    since timestamptz not null default now(),
    constraint worker_pkey primary key (name)
);
comment on table router.worker is 'what workers said of themselves within the last day';
create sequence router.worker_number;
comment on sequence router.worker_number is 'numbers the workers';

select pg_catalog.pg_extension_config_dump('router.shard', '');
select pg_catalog.pg_extension_config_dump('router.queue', '');
select pg_catalog.pg_extension_config_dump('router.worker', '');
select pg_catalog.pg_extension_config_dump('router.worker_number', '');
grant select on router.shard, router.queue to public;

-- Connections. Each role is itself on the shards.

create function router.connection(shard integer) returns text
language plpgsql stable as $body$
begin
    -- In PL/pgSQL, as what each call asks here: it keeps its plans.
    return (select s.connection from router.shard s where s.shard = $1);
end
$body$;
comment on function router.connection is 'how to reach a shard';

-- This database, as the owner: what it does there stays when the caller rolls back.
create function router._self() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $body$
    select format('host=%s port=%s dbname=''%s'' options=''-c lock_timeout=5s''',
        case
            when d.folder is null or d.folder = '' then '127.0.0.1'
            when d.folder like '/%' or d.folder like '@%' then '''' || d.folder || ''''
            else '''' || current_setting('data_directory') || '/' || d.folder || ''''
        end,
        current_setting('port'), replace(replace(current_database(), '\', '\\'), '''', '\'''))
    from (select trim(split_part(current_setting('unix_socket_directories'), ',', 1))) d (folder)
$body$;
comment on function router._self is 'how to reach this database';

create function router._place(queue text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
begin
    insert into router.queue (queue, shard)
    select $1, s.shard
    from router.shard s
    where s.state = 'active'
    order by (select count(*) from router.queue q where q.shard = s.shard) / s.weight, s.shard
    limit 1
    on conflict do nothing;
end
$body$;
comment on function router._place is 'gives a new queue its shard';
revoke all on function router._place from public;

create function router._place_at_once(queue text) returns void
language plproxy security definer as $body$
    connect router._self();
    select router._place($1);
$body$;
comment on function router._place_at_once is 'gives a new queue its shard, whatever becomes of the transaction';

-- Choosing shards.

create function router.shards() returns smallint[]
language plpgsql stable as 'begin return array(select s.shard from router.shard s order by s.shard); end';
comment on function router.shards is 'all shards';

create function router.any_shard() returns smallint
language plpgsql stable as $body$
declare
    _shard smallint;
begin
    select s.shard into _shard from router.shard s
    order by router._rests(s.shard), s.state, s.shard limit 1;
    if not found then perform router._raise_no_shard(); end if;
    return _shard;
end
$body$;
comment on function router.any_shard is 'a shard for what any of them knows';

create function router.chosen_shard(name text) returns smallint
language plpgsql volatile as $body$
declare
    _shard smallint;
begin
    -- Of several shards each name has the same one as long as it is there; null: any.
    select s.shard into _shard from router.shard s
    where s.state = 'active' and (name is not null or not router._rests(s.shard))
    order by -ln(case when name is null then 1 - random()
        else ((hashtextextended(name, s.shard) & 9223372036854775807) + 1) / 9223372036854775809.0 end::float8) / s.weight
    limit 1;
    if not found then
        select s.shard into _shard from router.shard s where s.state = 'active' order by random() limit 1;
    end if;
    if _shard is null then perform router._raise_no_shard(); end if;
    return _shard;
end
$body$;
comment on function router.chosen_shard is 'the shard of a name among the tasks of a spread queue';

create function router.shard_of_id(id uuid) returns smallint
language plpgsql stable as $body$
begin
    -- A hint, since a caller's id may have any last byte.
    return (select s.shard from router.shard s where s.shard = get_byte(uuid_send($1), 15));
end
$body$;
comment on function router.shard_of_id is 'the shard that made an id, if one did';

create function router.shards_of(id uuid) returns smallint[]
language plpgsql stable as $body$
declare
    _hint smallint := router.shard_of_id(id);
begin
    if id is null then return array[router.any_shard()]; end if; -- it says what is wrong
    return array_remove(_hint || array_remove(router.shards(), _hint), null);
end
$body$;
comment on function router.shards_of is 'all shards, the one first that probably has a task';

create function router.shards_by_byte(ids uuid[]) returns smallint[]
language plpgsql stable as $body$
declare
    _shards smallint[] := router.shards();
begin
    return array(
        select case when i.byte = any (_shards) then i.byte end
        from (select get_byte(uuid_send(id), 15)::smallint from unnest(ids) id offset 0) i (byte));
end
$body$;
comment on function router.shards_by_byte is 'the shards that made ids, if some did';

create function router._some(everything anyarray, places integer[]) returns anyarray
language plpgsql immutable as $body$
begin
    if everything is null then return null; end if;
    return array(select everything[i.place] from unnest(places) with ordinality i (place, n) order by i.n);
end
$body$;
comment on function router._some is 'some elements of an array';

-- The row of a queue; placed first when it is new.
create function router.queue_row(queue text) returns router.queue
language plpgsql volatile as $body$
declare
    _row router.queue;
begin
    select q.* into _row from router.queue q where q.queue = $1;
    if not found then
        if $1 is null or octet_length($1) not between 1 and 48 or not exists (select from router.shard) then
            perform router.any_shard();
            return (null, router.any_shard(), null, null)::router.queue; -- the shard says what is wrong
        end if;
        perform router._place_at_once($1);
        select q.* into _row from router.queue q where q.queue = $1;
        if not found then
            -- Not in this transaction's snapshot.
            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') and exists (
                select from router.shard s where s.state = 'active') then
                raise exception 'queue "%" is new since this transaction began', $1 using errcode = '40001',
                    hint = 'Repeat the transaction.';
            end if;
            perform router._raise_no_shard();
        end if;
    end if;
    if _row.moving_to is not null then
        raise exception 'queue "%" is being moved to another shard', $1 using errcode = '57P03',
            hint = 'Try again later.';
    end if;
    return _row;
end
$body$;
comment on function router.queue_row is 'where a queue is; a new one is given its shard';

create function router.shards_of_queue(queue text) returns smallint[]
language plpgsql volatile as $body$
declare
    _row router.queue := router.queue_row($1);
begin
    if _row.shard is null then return router.shards(); end if;
    return array[_row.shard];
end
$body$;
comment on function router.shards_of_queue is 'the shards that have a queue; a new one is given its shard';

create function router.shards_of_known_queue(queue text) returns smallint[]
language plpgsql volatile as $body$
begin
    if not exists (select from router.queue q where q.queue = $1) then
        return array[router.any_shard()]; -- it says that there is no such queue
    end if;
    return router.shards_of_queue($1);
end
$body$;
comment on function router.shards_of_known_queue is 'the shards that have a queue, or one that has not';

create function router.shard_of_queue(queue text, call text) returns smallint
language plpgsql volatile as $body$
declare
    _row router.queue := router.queue_row($1);
begin
    if _row.shard is null then
        raise exception '% cannot be used with the spread queue "%"', call, $1 using errcode = '0A000',
            detail = 'Its tasks are on several shards.';
    end if;
    return _row.shard;
end
$body$;
comment on function router.shard_of_queue is 'the shard of a queue, for a call that needs one';

create function router.shards_of_filter(filter jsonb) returns smallint[]
language plpgsql volatile as $body$
begin
    if jsonb_typeof(filter) = 'object' and jsonb_typeof(filter -> 'queue') = 'string' then
        return router.shards_of_known_queue(filter ->> 'queue');
    elsif jsonb_typeof(filter) = 'object' then
        return router.shards();
    end if;
    return array[router.any_shard()];
end
$body$;
comment on function router.shards_of_filter is 'the shards that may have tasks that a filter takes';

-- Where tasks are: by asking.
create function router._has(shard integer, ids uuid[]) returns setof uuid
language plproxy as $body$
    connect router.connection(shard);
    select _row.id as id from scylla.tasks _row where _row.id = any ($2);
$body$;
comment on function router._has is 'the tasks among these that a shard has';

create function router.locate(ids uuid[]) returns smallint[]
language plpgsql volatile set client_min_messages = warning as $body$
declare
    _found smallint[] := array_fill(null::smallint, array[cardinality(ids)]);
    _hints smallint[] := router.shards_by_byte(ids);
    _at smallint;
    _round integer;
    _some uuid[];
    _here uuid[];
begin
    if cardinality(ids) = 0 then return '{}'; end if;
    for _round in 1 .. 2 loop
        foreach _at in array router.shards() loop
            _some := array(select i.id from unnest(ids) with ordinality i (id, place)
                where _found[i.place] is null and (_hints[i.place] is not distinct from _at) = (_round = 1));
            continue when _some = '{}';
            _here := array(select router._has(_at, _some));
            _found := array(select case when i.id = any (_here) then _at else _found[i.place] end
                from unnest(ids) with ordinality i (id, place) order by i.place);
        end loop;
    end loop;
    return _found;
end
$body$;
comment on function router.locate is 'the shards that have tasks, null where none has';

create function router._check_after(after uuid[], shard smallint) returns void
language plpgsql volatile as $body$
declare
    _found smallint[] := router.locate(after);
    _place integer;
begin
    for _place in 1 .. cardinality(after) loop
        if _found[_place] <> shard then
            raise exception 'a task cannot wait for a task of another shard' using errcode = '0A000',
                detail = format('Task %s is on shard %s, and the task that is to wait on shard %s.',
                    after[_place], _found[_place], shard);
        end if;
    end loop;
end
$body$;
comment on function router._check_after is 'refuses predecessors on other shards';

-- Shards that do not answer. A session leaves such a shard alone for a second, then two, up to half a minute.

create function router._rests(shard smallint) returns boolean
language sql volatile as $body$
    select coalesce(
        extract(epoch from clock_timestamp())
            < nullif(split_part(current_setting('scylla_router.rest_' || $1, true), ' ', 2), '')::float8,
        false)
$body$;
comment on function router._rests is 'whether this session leaves a shard alone';

create function router._note_down(shard smallint, state text, message text) returns smallint
language plpgsql volatile as $body$
declare
    _name text := 'scylla_router.rest_' || shard;
    _pause float8;
begin
    if state = 'XX000' and message !~ '^PL/Proxy ' then
        raise exception '%', message using errcode = state; -- a fault, not a dead shard
    end if;
    if router._rests(shard) then return shard; end if;
    _pause := least(30, 2 * coalesce(nullif(split_part(current_setting(_name, true), ' ', 1), '')::float8, 0.5));
    perform set_config(_name, _pause || ' ' || (extract(epoch from clock_timestamp()) + _pause), false);
    return shard;
end
$body$;
comment on function router._note_down is 'notes that a shard does not answer, and for how long this session leaves it alone';

create function router._note_up(shard smallint) returns void
language plpgsql volatile as $body$
begin
    if nullif(current_setting('scylla_router.rest_' || shard, true), '') is not null then
        perform set_config('scylla_router.rest_' || shard, '', false);
    end if;
end
$body$;
comment on function router._note_up is 'notes that a shard answers';

-- Errors.

create function router._raise_down(shard smallint) returns void
language plpgsql as $body$
begin
    raise exception 'shard % does not answer', shard using errcode = '08006',
        detail = 'The other shards have done their part of the call.', hint = 'Repeat the call.';
end
$body$;
comment on function router._raise_down is 'raises that a shard does not answer';

create function router._raise_no_shard() returns void
language plpgsql as $body$
begin
    raise exception 'there is no active shard' using errcode = '55000', hint = 'Call router.add_shard().';
end
$body$;
comment on function router._raise_no_shard is 'raises that there is no shard';

create function router._raise_too_many(what text, rows integer) returns void
language plpgsql as $body$
begin
    raise exception '% shows no more than % tasks of a shard', what, rows using errcode = '54000',
        hint = 'Call scylla.list_tasks() with a filter, or ask the shard.';
end
$body$;
comment on function router._raise_too_many is 'raises that a view would read too much';

create function router._raise_read_only(call text) returns void
language plpgsql as $body$
begin
    raise exception 'cannot execute % in a read-only transaction', call using errcode = '25006';
end
$body$;
comment on function router._raise_read_only is 'raises that a transaction is read-only';

create function router._refuse(call text) returns void
language plpgsql as $body$
begin
    raise exception '% is not available through a router', call using errcode = '0A000',
        hint = 'Call it on a shard.';
end
$body$;
comment on function router._refuse is 'raises that a function is not routed';

-- What PL/Proxy reports, as the shard reported it.
create function router._rethrow(state text, message text, detail text, hint text) returns void
language plpgsql as $body$
declare
    _said text := substring(message from '^[^ ]+ ?\(\d+\): \[[^]]*\] REMOTE [A-Z]+: (.*)$');
begin
    if _said is not null then
        message := _said;
        detail := regexp_replace(detail, '^Remote detail: ', '');
        hint := regexp_replace(hint, '^Remote hint: ', '');
    elsif state = 'XX000' and message ~ '^PL/Proxy ' then
        state := '08006';
        detail := regexp_replace(message, '^PL/Proxy function [^ ]+: ', '');
        message := 'a shard does not answer';
        hint := 'Try again later.';
    end if;
    if state = '23505' then
        raise exception using errcode = state, message = message, detail = coalesce(detail, ''),
            constraint = case when message like 'key %' then 'task_key' else 'task_pkey' end;
    elsif nullif(hint, '') is null and nullif(detail, '') is null then
        raise exception using errcode = state, message = message;
    elsif nullif(hint, '') is null then
        raise exception using errcode = state, message = message, detail = detail;
    elsif nullif(detail, '') is null then
        raise exception using errcode = state, message = message, hint = hint;
    end if;
    raise exception using errcode = state, message = message, detail = detail, hint = hint;
end
$body$;
comment on function router._rethrow is 'raises an error of a shard as the shard did';

-- Administering: for the owner, and those to whom it grants these functions.

create function router._about(connection text) returns jsonb
language plproxy as $body$
    connect connection;
    select scylla.about();
$body$;
comment on function router._about is 'what serves at the end of a connection';
revoke all on function router._about from public;

create function router.add_shard(shard integer, connection text, weight double precision default 1)
returns void language plpgsql set client_min_messages = warning as $body$
#variable_conflict use_variable
declare
    _about jsonb;
begin
    if shard is null or connection is null or weight is null then
        raise exception 'the shard, its connection and its weight must not be null' using errcode = '22004';
    elsif shard not between 0 and 255 or not (weight > 0 and weight < 'infinity') then
        raise exception 'the number of a shard is 0 to 255, and its weight is positive' using errcode = '22023';
    elsif connection ~* '(^|\s)(user|password)\s*=' then
        raise exception 'a connection must name neither a user nor a password' using errcode = '22023',
            detail = 'Each role is itself on the shards.',
            hint = 'Put passwords into the file .pgpass of the server''s user.';
    elsif connection ~ '^\s*postgres(ql)?:' then
        raise exception 'a connection must be given as keywords and values' using errcode = '22023',
            hint = 'Such as: host=one dbname=tasks';
    end if;
    if connection !~* '(^|\s)connect_timeout\s*=' then
        connection := connection || ' connect_timeout=5';
    end if;
    -- Values come back as text.
    if connection !~* '(^|\s)options\s*=' then
        connection := connection || ' options=''-c datestyle=iso -c intervalstyle=postgres''';
    end if;
    _about := router._about(connection);
    if (_about ->> 'shard')::integer is distinct from shard then
        raise exception 'the database has number % among shards, not %', coalesce(_about ->> 'shard', 'none'), shard
            using errcode = '55000',
            hint = format('There, ALTER DATABASE ... SET scylla.shard = %s.', shard);
    elsif _about ->> 'version' is distinct from (
        select e.extversion from pg_catalog.pg_extension e where e.extname = 'scylla_router') then
        raise exception 'the shard has version % of scylla', _about ->> 'version' using errcode = '55000',
            hint = 'Install the same version of scylla and of scylla_router.';
    end if;
    insert into router.shard as s (shard, connection, weight) values (shard, connection, weight)
    on conflict on constraint shard_pkey do update
        set connection = excluded.connection, weight = excluded.weight, state = 'active';
exception when internal_error then
    perform router._rethrow(sqlstate, sqlerrm, null, null);
end
$body$;
comment on function router.add_shard is
    'adds a shard, or gives one another connection and weight; from then on it gets new queues';

create function router.drain_shard(shard integer) returns bigint
language plpgsql as $body$
#variable_conflict use_variable
declare
    _left bigint;
begin
    update router.shard s set state = 'draining' where s.shard = shard;
    if not found then
        raise exception 'shard % does not exist', shard using errcode = 'P0002';
    end if;
    select count(*) into _left from router.queue q where q.shard = shard or q.moving_to = shard;
    return _left;
end
$body$;
comment on function router.drain_shard is
    'gives a shard no new queue and no task of a spread queue; returns how many queues it has yet';

create function router.drop_shard(shard integer) returns void
language plpgsql as $body$
#variable_conflict use_variable
declare
    _left bigint;
begin
    if not exists (select from router.shard s where s.shard = shard and s.state = 'draining') then
        raise exception 'shard % does not drain', shard using errcode = '55000', hint = 'Call router.drain_shard().';
    end if;
    select count(*) into _left from router.queue q where q.shard = shard or q.moving_to = shard;
    if _left > 0 then
        raise exception 'shard % has % queues yet', shard, _left using errcode = '55000',
            hint = 'Move them with router.move_queue().';
    end if;
    select coalesce(sum(coalesce(q.waiting, 1) + coalesce(q.ready, 1) + q.running), 0) into _left
    from router._view_queues(shard) q;
    if _left > 0 then
        raise exception 'shard % has unfinished tasks of spread queues yet', shard using errcode = '55000',
            hint = 'Wait until workers have done them.';
    end if;
    delete from router.shard s where s.shard = shard;
end
$body$;
comment on function router.drop_shard is 'removes a drained shard from the map; its settled tasks are no longer seen';

create function router.spread_queue(queue text) returns void
language plpgsql as $body$
#variable_conflict use_variable
begin
    if queue is null then
        raise exception 'queue must not be null' using errcode = '22004';
    end if;
    insert into router.queue (queue, shard) values (queue, null);
exception
    when unique_violation then
        raise exception 'queue "%" exists already', queue using errcode = '55000',
            detail = 'Only a new queue can be spread.';
    when check_violation then
        raise exception 'a queue has 1 to 48 bytes' using errcode = '22023';
end
$body$;
comment on function router.spread_queue is 'makes a new queue have its tasks on all shards';

revoke all on function router.add_shard, router.drain_shard, router.drop_shard, router.spread_queue from public;
