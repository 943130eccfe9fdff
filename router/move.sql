-- Moving a queue: the rows of its tasks go from one shard to the other as they are, a thousand at a time.
-- A row that is on both shards is the source's: the target's copy is written again, and cannot be owned.
-- The row on the source is deleted only if it is what was copied. So each step can be repeated.

create function router._ask(shard smallint, command text) returns setof jsonb
language plpgsql as $body$
declare
    _name text := 'scylla_router_move_' || shard;
begin
    if not _name = any (coalesce(dblink_get_connections(), '{}')) then
        perform dblink_connect_u(_name, (select s.connection from router.shard s where s.shard = $1)
            || format(' user=''%s'' application_name=scylla_router', replace(replace(current_user, '\', '\\'), '''', '\''')));
    end if;
    return query execute format('select to_jsonb(r) from dblink(%L, %L) r (id text, version text, task text)', _name, command);
exception when others then
    if _name = any (coalesce(dblink_get_connections(), '{}')) then perform dblink_disconnect(_name); end if;
    raise;
end
$body$;
comment on function router._ask is 'what a shard answers to a statement';

create function router._ask_no_more(shard smallint) returns void
language plpgsql as $body$
begin
    perform dblink_disconnect('scylla_router_move_' || shard);
end
$body$;
comment on function router._ask_no_more is 'ends the session on a shard';
revoke all on function router._ask_no_more from public;
do $do$
declare
    _function regproc;
begin
    foreach _function in array array['router._ask', 'router._ask_no_more']::regproc[] loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', _function,
            (select n.nspname from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
                where e.extname = 'dblink'));
    end loop;
end
$do$;

create procedure router.move_queue(queue text, to_shard integer, timeout interval default '1 minute')
language plpgsql as $body$
#variable_conflict use_variable
declare
    _row router.queue;
    _from smallint;
    _again boolean;
    _marked timestamptz;
    _until timestamptz;
    _settings record;
    _ids text[];
    _some text[];
    _tasks text[];
    _versions text[];
    _gone text[];
    _left bigint;
    _shard smallint;
begin
    commit; -- fails in a transaction block
    if queue is null or to_shard is null or timeout is null then
        raise exception 'queue, to_shard and timeout must not be null' using errcode = '22004';
    elsif queue = 'sql' then
        raise exception 'the queue of the SQL commands cannot be moved' using errcode = '0A000';
    end if;
    select q.* into _row from router.queue q where q.queue = queue for update;
    if not found then
        raise exception 'queue "%" does not exist', queue using errcode = 'P0002';
    elsif _row.shard is null then
        raise exception 'the spread queue "%" cannot be moved', queue using errcode = '0A000',
            hint = 'Drain the shard: its tasks are done where they are.';
    elsif not exists (select from router.shard s where s.shard = to_shard) then
        raise exception 'shard % does not exist', to_shard using errcode = 'P0002';
    elsif _row.moving_to is not null and _row.moving_to <> to_shard then
        raise exception 'queue "%" is being moved to shard %', queue, _row.moving_to using errcode = '55000';
    elsif _row.moving_to is null and _row.shard = to_shard then
        return;
    end if;
    _from := _row.shard;
    _again := _row.moving_to is not null;
    if exists (select from router._view_schedules(_from) s where s.queue = queue) then
        raise exception 'queue "%" has schedules', queue using errcode = '55000',
            hint = 'Unschedule them, and schedule them again when the queue has moved.';
    end if;
    -- One call at a time, also where the session of another one has died before its last statement ended.
    foreach _shard in array array[_from, to_shard] loop
        if (select r ->> 'id' from router._ask(_shard, format(
            'select pg_try_advisory_lock(hashtextextended(%L, 0)), null, null', 'scylla_router ' || queue)) r) <> 't'
        then
            raise exception 'queue "%" is being moved by another session', queue using errcode = '55006';
        end if;
    end loop;
    if exists (select from router._ask(_from, format(
        'select t.id, null, null from scylla.task t where t.queue = %L and (t.pending > 0 or t.followed) limit 1', queue)))
    then
        raise exception 'queue "%" has tasks that wait for others, or others wait for them', queue
            using errcode = '55000', hint = 'Repeat the call when they have settled.';
    end if;
    select q.* into _settings from router._view_queues(_from) q where q.queue = queue;
    if not _again then
        update router.queue q set moving_to = to_shard, paused = coalesce(_settings.paused, false)
        where q.queue = queue;
    end if;
    commit;

    -- From here on no transaction that begins uses the queue. Those that began before end first.
    _marked := clock_timestamp();
    _until := _marked + timeout;
    while exists (
        select from pg_catalog.pg_stat_activity a
        where a.datname = current_database() and a.backend_type = 'client backend'
            and a.pid <> pg_backend_pid() and a.xact_start < _marked
    ) loop
        if clock_timestamp() > _until then
            raise exception 'could not move queue "%": transactions that began before are still open', queue
                using errcode = '55006', hint = 'Repeat the call when they have ended.';
        end if;
        perform pg_sleep(0.05);
        commit;
    end loop;
    -- The target first: what has been copied must not be owned.
    perform router._configure_queue(to_shard, queue, _settings.timeout, _settings.retention, _settings.max_running,
        _settings.max_per_second, _settings.aging, _settings.keep_finished, _settings.critical,
        _settings.max_tries, _settings.retry_interval, _settings.retry_jitter, null, _settings.max_running_per_group);
    perform router._pause(to_shard, queue);
    if _settings.queue is not null then perform router._pause(_from, queue); end if;
    loop
        select coalesce(sum(q.running), 0) into _left from router._view_queues(_from) q where q.queue = queue;
        exit when _left = 0;
        if clock_timestamp() > _until then
            raise exception 'could not move queue "%": % tasks are still running', queue, _left
                using errcode = '55006', hint = 'Repeat the call when their workers have returned them.';
        end if;
        perform pg_sleep(0.05);
        commit;
    end loop;

    loop
        -- What waits for others, or others wait for, stays.
        _ids := array(select r ->> 'id' from router._ask(_from, format(
            'select t.id, null, null from scylla.task t where t.queue = %L and t.pending = 0 and not t.followed limit 100000',
            queue)) r);
        exit when _ids = '{}';
        for _place in 1 .. cardinality(_ids) by 1000 loop
            _some := _ids[_place : _place + 999];
            select array_agg(r ->> 'id'), array_agg(r ->> 'version'), array_agg(r ->> 'task')
            into _some, _versions, _tasks
            from router._ask(_from, format(
                'select t.id, t.xmin, pg_catalog.jsonb_populate_record(t, ''{"schedule": null}'') '
                'from scylla.task t where t.id = any (%L) and t.queue = %L and t.pending = 0 and not t.followed',
                _some, queue)) r;
            continue when _some is null;
            perform router._ask(to_shard::smallint,
                format('delete from scylla.task t where t.id = any (%L) returning null, null, null', _some));
            perform router._ask(to_shard::smallint, format(
                'insert into scylla.task select (c.task::scylla.task).* from unnest(%L::text[]) c (task) '
                'where not exists (select from scylla.finished f where f.id = (c.task::scylla.task).id) '
                'returning null, null, null', _tasks));
            _gone := array(select r ->> 'id' from router._ask(_from, format(
                'delete from scylla.task t using unnest(%L::uuid[], %L::text[]) c (id, version) '
                'where t.id = c.id and t.xmin::text = c.version returning t.id, null, null', _some, _versions)) r);
            -- The others have changed in between: their copies are old.
            if cardinality(_gone) < cardinality(_some) then
                perform router._ask(to_shard::smallint, format(
                    'delete from scylla.task t where t.id = any (%L) and t.id <> all (%L) returning null, null, null',
                    _some, _gone));
            end if;
            commit;
        end loop;
    end loop;
    if _again then
        -- A task that settled on the source between two attempts may have a copy.
        _ids := array(select r ->> 'id' from router._ask(to_shard::smallint,
            format('select t.id, null, null from scylla.task t where t.queue = %L', queue)) r);
        for _place in 1 .. cardinality(_ids) by 10000 loop
            _some := array(select r ->> 'id' from router._ask(_from,
                format('select f.id, null, null from scylla.finished f where f.id = any (%L)', _ids[_place : _place + 9999])) r);
            continue when _some = '{}';
            perform router._ask(to_shard::smallint,
                format('delete from scylla.task t where t.id = any (%L) returning null, null, null', _some));
        end loop;
    end if;
    perform router._refresh(_from), router._refresh(to_shard);
    if exists (select from router._ask(_from, format(
        'select t.id, null, null from scylla.task t where t.queue = %L limit 1', queue)))
    then
        raise exception 'could not move queue "%": tasks of it wait for others, or others wait for them', queue
            using errcode = '55000', detail = 'The other tasks have moved, and the queue hands out nothing.',
            hint = 'Cancel those, or wait for their time, and repeat the call.';
    end if;
    perform router._configure_queue(to_shard, queue, null, null, null, null, null, null, null, null, null, null,
        _settings.max_ready, null);
    if not (select q.paused from router.queue q where q.queue = queue) then
        perform router._resume(to_shard, queue);
    end if;
    update router.queue q set shard = to_shard, moving_to = null, paused = false where q.queue = queue;
    commit;
    perform router._ask_no_more(_from), router._ask_no_more(to_shard::smallint);
end
$body$;
comment on procedure router.move_queue is
    'moves a queue to another shard; repeat it until it succeeds: meanwhile the queue hands out and takes nothing';
revoke all on procedure router.move_queue from public;
revoke all on function router._ask from public;
