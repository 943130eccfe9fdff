-- The functions that choose their shards by more than one argument. `generate` puts the heads of the
-- declarations in place of \function and \procedure.

\function submit
declare
    _row router.queue := router.queue_row(queue);
    _at smallint := _row.shard;
begin
    if _row.queue is not null and _at is null then
        if key is not null then
            raise exception 'a task of the spread queue "%" cannot have a key', queue using errcode = '0A000',
                detail = 'Keys are unique on one shard only.';
        elsif group_key is null and array_ndims(after) = 1 then
            _at := (array_remove(router.locate(after), null))[1];
        end if;
        _at := coalesce(_at, router.chosen_shard(coalesce(group_key, id::text)));
    end if;
    _at := coalesce(_at, router.any_shard());
    if array_ndims(after) = 1 and array_position(after, null) is null then
        perform router._check_after(after, _at);
    end if;
    return router._submit(_at, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);
\end

\function submit_many
declare
    _row router.queue := router.queue_row(queue);
    _at smallint := _row.shard;
    _names text[];
begin
    if _row.queue is not null and _at is null then
        if array_length(array_remove(keys, null), 1) > 0 then
            raise exception 'a task of the spread queue "%" cannot have a key', queue using errcode = '0A000',
                detail = 'Keys are unique on one shard only.';
        end if;
        select array_agg(distinct router.chosen_shard(coalesce(group_keys[_place], ids[_place]::text))::text)
        into _names
        from generate_subscripts(specs, 1) _place
        where coalesce(group_keys[_place], ids[_place]::text) is not null;
        if cardinality(_names) > 1 then
            raise exception 'the tasks of one call cannot go to several shards' using errcode = '0A000',
                detail = format('The groups and ids that it names are of the shards %s.', array_to_string(_names, ', ')),
                hint = 'Call it for each group, or scylla.submit_tasks() with atomic => false.';
        end if;
        _at := coalesce(_names[1]::smallint, router.chosen_shard(null));
    end if;
    _at := coalesce(_at, router.any_shard());
    return router._submit_many(_at, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);
\end

\function submit_tasks
declare
    _shards smallint[] := '{}';
    _task jsonb;
    _queue text;
    _row router.queue;
    _at smallint;
    _after uuid[];
    _ids uuid[];
    _refused text[] := '{}';
    _n integer := 0;
    _places integer[];
    _answer record;
    _answer_ids uuid[];
    _outcomes text[];
    _errors text[];
begin
    if jsonb_typeof(tasks) is distinct from 'array' or jsonb_array_length(tasks) not between 1 and 100000
        or atomic is null then
        return query select * from router._submit_tasks(router.any_shard(), tasks, atomic);
        return;
    end if;
    for _task in select * from jsonb_array_elements(tasks) loop
        _n := _n + 1;
        _at := null;
        _after := null;
        _queue := case when jsonb_typeof(_task -> 'queue') = 'string' then _task ->> 'queue' end;
        -- A shard says what is wrong with an element.
        if _queue is not null and octet_length(_queue) between 1 and 48 then
            if _row.queue is distinct from _queue then _row := router.queue_row(_queue); end if;
            _at := _row.shard;
            if _at is null and _task ->> 'key' is not null then
                _refused[_n] := 'a task of a spread queue cannot have a key';
            elsif _at is null then
                _at := router.chosen_shard(coalesce(_task ->> 'group_key', _task ->> 'id'));
            end if;
            begin
                _after := array(select value::uuid from jsonb_array_elements_text(
                    case when jsonb_typeof(_task -> 'after') = 'array' then _task -> 'after' else '[]' end)
                    where value is not null);
            exception when invalid_text_representation then
            end;
            if cardinality(_after) > 0 then
                begin
                    perform router._check_after(_after, coalesce(_at, router.any_shard()));
                exception when feature_not_supported then
                    _refused[_n] := sqlerrm;
                end;
            end if;
        end if;
        if _refused[_n] is not null then
            if atomic then raise exception '%', _refused[_n] using errcode = '0A000'; end if;
        end if;
        _shards[_n] := coalesce(_at, router.any_shard());
    end loop;
    -- Ids of the same array count, too.
    if exists (
        select from jsonb_array_elements(tasks) with ordinality t (task, n),
            jsonb_array_elements_text(case when jsonb_typeof(t.task -> 'after') = 'array' then t.task -> 'after' else '[]' end) a (id),
            jsonb_array_elements(tasks) with ordinality o (task, n)
        where o.task ->> 'id' = a.id and _shards[o.n] <> _shards[t.n]
    ) then
        raise exception 'a task cannot wait for a task of another shard' using errcode = '0A000';
    end if;
    if _shards[1] = all (_shards) and _refused = '{}' then
        return query select * from router._submit_tasks(_shards[1], tasks, atomic);
        return;
    elsif atomic then
        raise exception 'an atomic call cannot submit to several shards' using errcode = '0A000',
            detail = format('The tasks are of the shards %s.',
                (select string_agg(distinct s::text, ', ') from unnest(_shards) s)),
            hint = 'Use atomic => false, or one call for each shard.';
    end if;
    _answer_ids := array_fill(null::uuid, array[_n]);
    _outcomes := array_fill('invalid'::text, array[_n]);
    _errors := array_fill(null::text, array[_n]);
    foreach _at in array router.shards() loop
        _places := array(select p from generate_series(1, _n) p where _shards[p] = _at and _refused[p] is null order by p);
        continue when _places = '{}';
        for _answer in
            select r.* from router._submit_tasks(_at,
                (select jsonb_agg(tasks -> (p - 1) order by p) from unnest(_places) p), false)
                with ordinality r (id, outcome, error, n)
        loop
            _answer_ids[_places[_answer.n]] := _answer.id;
            _outcomes[_places[_answer.n]] := _answer.outcome;
            _errors[_places[_answer.n]] := _answer.error;
        end loop;
    end loop;
    return query select _answer_ids[p], _outcomes[p], coalesce(_errors[p], _refused[p]) from generate_series(1, _n) p;
\end

-- Owning: no shard is asked for a queue that no task was submitted to. In a spread queue a shard that does
-- not answer is passed over.

\function own_tasks
declare
    _row router.queue;
    _at smallint;
    _left integer := max_tasks;
    _got bigint;
    _answers boolean := false;
    _down smallint;
begin
    select q.* into _row from router.queue q where q.queue = $2;
    if found and _row.moving_to is not null then
        return;
    elsif not found or _row.shard is not null then
        return query select * from router._own_tasks(coalesce(_row.shard, router.any_shard()), $1, $2, $3, $4, $5);
        return;
    end if;
    for _at in select s.shard from router.shard s order by router._rests(s.shard), random() loop
        if _answers and router._rests(_at) then continue; end if;
        begin
            return query select * from router._own_tasks(_at, $1, $2, _left, $4, $5);
            get diagnostics _got = row_count;
            _left := _left - _got;
            _answers := true;
            perform router._note_up(_at);
        exception when internal_error or cannot_connect_now or admin_shutdown or crash_shutdown then
            _down := router._note_down(_at, sqlstate, sqlerrm);
        end;
        exit when _left <= 0;
    end loop;
    if not _answers and _down is not null then perform router._raise_down(_down); end if;
\end

\function own_any
declare
    _queue text;
    _left integer := max_tasks;
    _got bigint;
    _answers boolean := false;
    _down text;
begin
    if queues is null or cardinality(queues) not between 1 and 16 or array_ndims(queues) > 1
        or array_position(queues, null) is not null or '' = any (queues) or max_tasks is null or max_tasks < 1 then
        return query select * from router._own_any(router.any_shard(), $1, $2, $3, $4, $5); -- it says what is wrong
        return;
    end if;
    foreach _queue in array queues loop
        begin
            return query select o.*, _queue from scylla.own_tasks(worker, _queue, _left, actions, timeout) o;
            get diagnostics _got = row_count;
            _left := _left - _got;
            _answers := true;
        exception when connection_failure or cannot_connect_now then
            _down := sqlerrm;
        end;
        exit when _left <= 0;
    end loop;
    if not _answers and _down is not null then
        raise exception '%', _down using errcode = '08006', hint = 'Try again later.';
    end if;
\end

\function register_worker
begin
    if meta is null or jsonb_typeof(meta) <> 'object' or octet_length(meta::text) > 8192 then
        return router._register_worker(router.any_shard(), meta); -- it says what is wrong
    end if;
    return router._register(meta);
\end

create function router._register(meta jsonb) returns text
language sql security definer set search_path = pg_catalog, pg_temp as $body$
    delete from router.worker w where w.since < pg_catalog.now() - interval '1 day';
    insert into router.worker (name, meta)
    values ('worker-' || pg_catalog.nextval('router.worker_number'), $1) returning name;
$body$;
comment on function router._register is 'notes a worker, with a name that none had before';

\function heartbeat
declare
    _hints smallint[];
    _at smallint;
    _round integer;
    _places integer[];
    _answer record;
    _states text[];
    _deadlines timestamptz[];
    _down smallint;
begin
    if coalesce(cardinality(ids), 0) = 0 or array_ndims(ids) > 1 or cardinality(ids) <> coalesce(cardinality(tokens), 0)
        or cardinality(progress) <> cardinality(ids) then
        return query select * from router._heartbeat(router.any_shard(), $1, $2, $3, $4, $5);
        return;
    end if;
    _hints := router.shards_by_byte(ids);
    _states := array_fill(null::text, array[cardinality(ids)]);
    _deadlines := array_fill(null::timestamptz, array[cardinality(ids)]);
    for _round in 1 .. 2 loop
        foreach _at in array router.shards() loop
            _places := array(select p from generate_subscripts(_hints, 1) p
                where coalesce(_states[p], 'gone') = 'gone'
                    and (_hints[p] is not distinct from _at) = (_round = 1) order by p);
            continue when _places = '{}';
            begin
                for _answer in
                    select h.* from router._heartbeat(_at, worker, router._some(ids, _places),
                        router._some(tokens, _places), timeout, router._some(progress, _places))
                        with ordinality h (id, state, deadline, n)
                loop
                    _states[_places[_answer.n]] := _answer.state;
                    _deadlines[_places[_answer.n]] := _answer.deadline;
                end loop;
            exception when internal_error or cannot_connect_now or admin_shutdown or crash_shutdown then
                _down := router._note_down(_at, sqlstate, sqlerrm);
            end;
        end loop;
    end loop;
    if _down is not null then perform router._raise_down(_down); end if;
    return query select ids[p], _states[p], _deadlines[p] from generate_subscripts(ids, 1) p;
\end

\function add_dependencies
declare
    _of_after smallint[];
    _of_run smallint[];
    _at smallint;
    _places integer[];
begin
    if after is null or run is null or cardinality(after) <> cardinality(run) or cardinality(run) = 0 then
        return router._add_dependencies(router.any_shard(), after, run);
    end if;
    _of_run := router.locate(run);
    _of_after := router.locate(after);
    for _n in 1 .. cardinality(run) loop
        if _of_after[_n] <> _of_run[_n] then
            raise exception 'a task cannot wait for a task of another shard' using errcode = '0A000',
                detail = format('Task %s is on shard %s, and task %s on shard %s.',
                    after[_n], _of_after[_n], run[_n], _of_run[_n]);
        elsif _of_run[_n] <> _of_run[1] then
            raise exception 'the tasks of one call cannot be on several shards' using errcode = '0A000',
                hint = 'Call it for the tasks of each shard.';
        end if;
    end loop;
    return router._add_dependencies(coalesce(_of_run[1], router.any_shard()), after, run);
\end

\function drop_queue
declare
    _at smallint;
    _dropped boolean := false;
begin
    foreach _at in array router.shards_of_known_queue(queue) loop
        _dropped := router._drop_queue(_at, queue) or _dropped;
    end loop;
    perform router._forget_queue(queue);
    return _dropped;
\end

create function router._forget_queue(queue text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $body$
    delete from router.queue q where q.queue = $1 and q.shard is not null;
$body$;
comment on function router._forget_queue is 'takes a dropped queue from the map';
revoke all on function router._forget_queue from public;

-- The name of a schedule is one over all shards. A new one is there before an old one elsewhere goes.
\function schedule
declare
    _row router.queue := router.queue_row(queue);
    _here smallint := coalesce(_row.shard, router.any_shard());
    _at smallint;
    _number bigint;
begin
    _number := router._schedule(_here, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);
    foreach _at in array array_remove(router.shards(), _here) loop
        perform router._unschedule(_at, name);
    end loop;
    return _number;
\end

\function alter_schedule
declare
    _at smallint;
begin
    foreach _at in array router.shards() loop
        continue when not exists (select from router._view_schedules(_at) s where s.name = $1);
        if queue is not null and not (_at = any (router.shards_of_queue(queue))) then
            raise exception 'schedule "%" cannot move to another shard', name using errcode = '0A000',
                hint = 'Call scylla.schedule() with all that it has.';
        end if;
        perform router._alter_schedule(_at, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);
        return;
    end loop;
    perform router._alter_schedule(router.any_shard(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);
\end

\function about
declare
    _about jsonb;
    _shards jsonb := '[]';
    _at record;
begin
    for _at in select s.shard, s.state from router.shard s order by s.shard loop
        begin
            _about := router._about(_at.shard);
            _shards := _shards || jsonb_build_object('shard', _at.shard, 'state', _at.state, 'version', _about -> 'version');
        exception when internal_error or cannot_connect_now or admin_shutdown or crash_shutdown then
            perform router._note_down(_at.shard, sqlstate, sqlerrm);
            _shards := _shards || jsonb_build_object('shard', _at.shard, 'state', 'down');
        end;
    end loop;
    if _about is null then perform router._raise_no_shard(); end if;
    return _about || jsonb_build_object('edition', 'router', 'shard', null, 'shards', _shards);
\end

-- A page over all shards. The others than that of the last task of the page before go on from its time.
\function list_tasks
declare
    _shards smallint[] := router.shards_of_filter(filter);
    _at smallint;
    _of smallint;
    _last jsonb;
    _filter jsonb;
    _by_settling boolean := coalesce(filter ->> 'status' in ('completed', 'aborted', 'cancelled'), false);
begin
    if cardinality(_shards) = 1 then
        return query select t.*, _shards[1] from router._list_tasks(_shards[1], filter, after, max_tasks) t;
        return;
    elsif after is not null then
        if _by_settling then
            raise exception 'a page of settled tasks of several shards cannot go on' using errcode = '0A000',
                hint = 'Name a queue that is not spread, or use created_before.';
        end if;
        _last := scylla.task(after);
        _of := (router.locate(array[after]))[1];
    end if;
    return query
    select p.*
    from unnest(_shards) s (shard)
    cross join lateral (
        select t.*, s.shard
        from router._list_tasks(s.shard,
            case when after is null or s.shard = _of then filter
                else filter || jsonb_build_object('created_before', least(
                    (_last ->> 'created')::timestamptz, (filter ->> 'created_before')::timestamptz)) end,
            case when s.shard = _of then after end, max_tasks) t
    ) p
    order by case when _by_settling then p.updated else p.created end desc, p.id desc
    limit max_tasks;
\end

-- Waiting: the shards wait, each in a connection of its own that this session keeps, and this session
-- looks every 20 ms whether one has answered. Needs no library beside dblink, whose calls cannot be
-- interrupted while they wait.

create function router._wait_begin(shard smallint, command text) returns text
language plpgsql security definer as $body$
declare
    _name text := 'scylla_router_' || shard;
    _role text := current_setting('role');
begin
    if _role = 'none' then _role := session_user; end if;
    if _name = any (coalesce(dblink_get_connections(), '{}')) then
        begin
            if dblink_send_query(_name, command) = 1 then return _name; end if;
        exception when others then
        end;
        perform dblink_disconnect(_name);
    end if;
    perform dblink_connect_u(_name, format('%s user=''%s'' application_name=scylla_router',
        (select s.connection from router.shard s where s.shard = $1), replace(replace(_role, '\', '\\'), '''', '\''')));
    if dblink_send_query(_name, command) <> 1 then
        raise exception 'could not send a query' using errcode = '08006';
    end if;
    return _name;
end
$body$;
comment on function router._wait_begin is 'sends the call that waits to a shard';

create function router._wait_has_ended(name text) returns boolean
language plpgsql as 'begin return dblink_is_busy(name) = 0; end';
comment on function router._wait_has_ended is 'whether a shard has answered';

create function router._wait_answer(name text, columns text) returns jsonb
language plpgsql as $body$
declare
    _answer jsonb;
begin
    execute format('select to_jsonb(r) from dblink_get_result(%L) r (%s)', name, columns) into _answer;
    perform * from dblink_get_result(name) as r (nothing text);
    return _answer;
end
$body$;
comment on function router._wait_answer is 'what a shard has answered';

create function router._wait_end(name text) returns void
language plpgsql set client_min_messages = error as $body$
begin
    perform dblink_cancel_query(name);
    for _try in 1 .. 50 loop
        if dblink_is_busy(name) = 0 then
            perform * from dblink_get_result(name, false) as r (nothing text);
            perform * from dblink_get_result(name, false) as r (nothing text);
            return;
        end if;
        perform pg_sleep(0.002);
    end loop;
    perform dblink_disconnect(name);
exception when others then
    if name = any (dblink_get_connections()) then perform dblink_disconnect(name); end if;
end
$body$;
comment on function router._wait_end is 'ends the call of a shard that still waits';

do $do$
declare
    _function text;
begin
    foreach _function in array array['_wait_begin(smallint, text)', '_wait_has_ended(text)', '_wait_answer(text, text)', '_wait_end(text)'] loop
        execute format('alter function router.%s set search_path = pg_catalog, %I, pg_temp', _function,
            (select n.nspname from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
                where e.extname = 'dblink'));
    end loop;
end
$do$;

-- Waits on shards for the first answer that is not empty; null: the time is over. `command` is the call,
-- with %s for the time that is left.
create procedure router.wait_on(
    shards smallint[], command text, columns text, timeout interval, inout answer jsonb default null)
language plpgsql as $body$
declare
    _end timestamptz;
    _names text[];
    _again timestamptz[];
    _at integer;
    _failed text;
    _state text;
begin
    commit; -- it holds no snapshot, and fails in a transaction block
    answer := null;
    if not isfinite(timeout) or timeout > interval '1 year' then timeout := interval '1 year'; end if;
    _end := clock_timestamp() + timeout;
    _names := array_fill(null::text, array[cardinality(shards)]);
    _again := array_fill(clock_timestamp(), array[cardinality(shards)]);
    <<waiting>>
    loop
        for _at in 1 .. cardinality(shards) loop
            _state := null;
            begin
                if _names[_at] is null and _again[_at] <= clock_timestamp() then
                    _again[_at] := clock_timestamp() + interval '1 second';
                    _names[_at] := router._wait_begin(shards[_at],
                        format(command, quote_literal(greatest(_end - clock_timestamp(), interval '0'))));
                elsif _names[_at] is not null and router._wait_has_ended(_names[_at]) then
                    answer := router._wait_answer(_names[_at], columns);
                    _names[_at] := null;
                end if;
            exception when others then
                _state := sqlstate;
                _failed := sqlerrm;
                if _names[_at] is not null then perform router._wait_end(_names[_at]); end if;
                _names[_at] := null;
            end;
            if _state ~ '^(22|42|25|P0|55)' then
                exit waiting; -- it cannot wait there, now or later
            end if;
            exit waiting when exists (
                select from jsonb_each(answer) a where a.value not in ('null', 'false'));
        end loop;
        _state := null;
        exit when clock_timestamp() >= _end;
        perform pg_sleep(0.02);
        commit;
    end loop;
    for _at in 1 .. cardinality(shards) loop
        if _names[_at] is not null then perform router._wait_end(_names[_at]); end if;
    end loop;
    if _state is not null then
        raise exception '%', regexp_replace(_failed, '^could not [^:]*: ', '') using errcode = _state;
    end if;
end
$body$;
comment on procedure router.wait_on is 'waits for the first answer of several shards';

create function router.shards_of_queues(queues text[]) returns smallint[]
language sql volatile as $body$
    select coalesce(array_agg(distinct s.shard), array[router.any_shard()])
    from unnest($1) q (queue) cross join lateral unnest(router.shards_of_queue(q.queue)) s (shard)
    where q.queue is not null
$body$;
comment on function router.shards_of_queues is 'the shards that may have work of queues';

\procedure wait_for_work
declare
    _answer jsonb;
begin
    call router.wait_on(router.shards_of_queues(array[queue]),
        format('call scylla.wait_for_work(%L, %%s, %L)', queue, actions), 'available boolean', timeout, _answer);
    available := coalesce((_answer ->> 'available')::boolean, false);
\end procedure

\procedure wait_for_any
declare
    _answer jsonb;
begin
    call router.wait_on(router.shards_of_queues(queues),
        format('call scylla.wait_for_any(%L, %%s, %L)', queues, actions), 'queue text', timeout, _answer);
    queue := _answer ->> 'queue';
\end procedure

\procedure wait_for_event
declare
    _answer jsonb;
begin
    call router.wait_on(router.shards_of_queues(queues),
        format('call scylla.wait_for_event(%L, %L, %%s, %L)', worker, queues, actions), 'event text, queue text',
        timeout, _answer);
    event := _answer ->> 'event';
    queue := _answer ->> 'queue';
\end procedure

\procedure wait_for_task
declare
    _answer jsonb;
begin
    call router.wait_on(array[coalesce((router.locate(array[id]))[1], router.any_shard())],
        format('call scylla.wait_for_task(%L, %%s)', id), 'status text, result jsonb', timeout, _answer);
    status := _answer ->> 'status';
    result := nullif(_answer -> 'result', 'null');
\end procedure
