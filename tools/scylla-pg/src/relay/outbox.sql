-- The outbox: scylla's functions that submit, in a database whose server does not load scylla.
-- A call writes rows in the caller's transaction. `scylla-pg relay` carries them to scylla's server.
--
-- Needs PostgreSQL 13 or later, CREATE on the database, and no superuser. Install it in one
-- transaction:
--   psql -1 -f outbox.sql
-- No role may submit before it is granted:
--   grant usage on schema scylla to app;
--   grant execute on function scylla.submit, scylla.submit_many, scylla.submit_tasks to app;
-- The relay connects as the owner of the schema, or as a role that may do what the owner grants:
--   grant usage on schema scylla to relay;
--   grant select, truncate on scylla.outbox, scylla.outbox_0, scylla.outbox_1 to relay;
--   grant select, update on scylla.outbox_round, scylla.outbox_listener to relay;

create schema scylla;
comment on schema scylla is 'tasks on their way to scylla, the task scheduler on another server';

-- The order of submission.
create sequence scylla.outbox_seq;
comment on sequence scylla.outbox_seq is 'the order of submissions';

-- Registers. A sequence keeps no dead rows, whatever snapshot a session holds.
create sequence scylla.outbox_round;
comment on sequence scylla.outbox_round is 'rows go to the partition with the remainder by 2 of its last value';
create sequence scylla.outbox_listener;
comment on sequence scylla.outbox_listener is '1: the relay waits for a notification; 2: it looks often';

-- A row does not change. Partitions are emptied by TRUNCATE in turn, so that nothing is left to
-- vacuum.
create table scylla.outbox (
    seq bigint not null default nextval('scylla.outbox_seq'),
    slot smallint not null,
    xid xid8 not null default pg_current_xact_id(),
    submitted timestamptz not null default clock_timestamp(),
    id uuid not null,
    queue text not null,
    spec jsonb not null,
    action text not null default '',
    priority bigint not null default 0,
    key text,
    on_conflict text not null default 'error',
    run_at timestamptz,
    after uuid[],
    on_failure text not null default 'abort',
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    timeout interval,
    post_result boolean not null default false,
    group_key text,
    meta jsonb,
    unique_for interval
) partition by list (slot);
comment on table scylla.outbox is 'submitted tasks: those to carry, and those carried last';

create table scylla.outbox_0 partition of scylla.outbox for values in (0)
with (autovacuum_enabled = off, toast.autovacuum_enabled = off);
comment on table scylla.outbox_0 is 'the rows of even rounds';
create table scylla.outbox_1 partition of scylla.outbox for values in (1)
with (autovacuum_enabled = off, toast.autovacuum_enabled = off);
comment on table scylla.outbox_1 is 'the rows of odd rounds';

create index outbox_seq_idx on scylla.outbox (seq);
comment on index scylla.outbox_seq_idx is 'for the relay: rows by their order';
create index outbox_xid_idx on scylla.outbox (xid);
comment on index scylla.outbox_xid_idx is 'for the relay: rows of transactions that have ended since it looked';

-- A uuid of version 7.
create function scylla._outbox_id() returns uuid
language sql volatile parallel safe
as $$
select pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(pg_catalog.overlay(
    pg_catalog.uuid_send(pg_catalog.gen_random_uuid()),
    pg_catalog.substring(pg_catalog.int8send(
        (extract(epoch from pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000)::bigint), 3),
    1, 6), 52, 1), 53, 1), 'hex')::uuid
$$;
comment on function scylla._outbox_id is 'a new id of a task';

-- Raises the error of an argument as scylla does.
create function scylla._outbox_refuse(code text, message text, detail text default null, hint text default null)
returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if detail is not null then
        raise exception using errcode = code, message = message, detail = detail;
    elsif hint is not null then
        raise exception using errcode = code, message = message, hint = hint;
    end if;
    raise exception using errcode = code, message = message;
end
$$;
comment on function scylla._outbox_refuse is 'raises an error';

-- Refuses a text that is too short or too long, in bytes. Null passes.
create function scylla._outbox_check_text(argument text, value text, shortest integer, longest integer)
returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    bytes constant integer := octet_length(convert_to(value, 'UTF8'));
begin
    if bytes not between shortest and longest then
        perform scylla._outbox_refuse('22023', format('%s must be %s to %s bytes long', argument, shortest, longest),
            format('The value has %s bytes.', bytes));
    end if;
end
$$;
comment on function scylla._outbox_check_text is 'refuses a text of a wrong length';

-- Refuses a spec or an object for clients.
create function scylla._outbox_check_json(spec jsonb, meta jsonb)
returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if spec is null then
        perform scylla._outbox_refuse('22004', 'spec must not be null');
    elsif jsonb_typeof(spec) = 'null' then
        perform scylla._outbox_refuse('22023', 'spec must not be JSON null');
    elsif jsonb_typeof(meta) <> 'object' then
        perform scylla._outbox_refuse('22023', 'meta must be an object');
    end if;
end
$$;
comment on function scylla._outbox_check_json is 'refuses a wrong spec or meta';

-- Refuses what scylla.submit and scylla.submit_many have in common.
create function scylla._outbox_check(
    queue text, action text, priority bigint, run_at timestamptz, max_tries integer,
    retry_interval interval, retry_jitter interval, timeout interval, post_result boolean
) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    missing constant text := case
        when queue is null then 'queue' when action is null then 'action'
        when priority is null then 'priority' when post_result is null then 'post_result' end;
begin
    if missing is not null then
        perform scylla._outbox_refuse('22004', missing || ' must not be null');
    end if;
    perform scylla._outbox_check_text('queue', queue, 1, 48);
    perform scylla._outbox_check_text('action', action, 0, 128);
    if queue = 'sql' then
        perform scylla._outbox_refuse('55000', 'queue "sql" is served by the server itself', null,
            'Use scylla.run_sql() or scylla.schedule_sql() on scylla''s server.');
    elsif priority not between 0 and 4294967295 then
        perform scylla._outbox_refuse('22023', 'priority must be between 0 and 4294967295');
    elsif not isfinite(run_at) then
        perform scylla._outbox_refuse('22023', 'run_at must be finite');
    elsif max_tries < 0 then
        perform scylla._outbox_refuse('22023', 'max_tries must be between 0 and 2147483647');
    elsif retry_interval < interval '0' then
        perform scylla._outbox_refuse('22023', 'retry_interval must not be negative');
    elsif retry_jitter < interval '0' then
        perform scylla._outbox_refuse('22023', 'retry_jitter must not be negative');
    elsif timeout <= interval '0' then
        perform scylla._outbox_refuse('22023', 'timeout must be greater than zero');
    end if;
end
$$;
comment on function scylla._outbox_check is 'refuses a wrong argument';

-- The partition for new rows. Wakes the relay when it waits for that.
create function scylla._outbox_slot() returns smallint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    round bigint;
    listener bigint;
begin
    select r.last_value, l.last_value into strict round, listener
    from scylla.outbox_round r, scylla.outbox_listener l;
    if listener = 1 then
        perform pg_notify('scylla_outbox', '');
    end if;
    return round % 2;
end
$$;
comment on function scylla._outbox_slot is 'the partition for new rows';

-- Writes a row. Returns its id.
create function scylla.submit(
    queue text,
    spec jsonb default '{}',
    action text default '',
    priority bigint default 0,
    id uuid default null,
    key text default null,
    on_conflict text default 'error',
    run_at timestamptz default null,
    after uuid[] default null,
    on_failure text default 'abort',
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    group_key text default null,
    meta jsonb default null,
    unique_for interval default null
) returns uuid
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    new_id constant uuid := coalesce(id, scylla._outbox_id());
begin
    perform scylla._outbox_check(queue, action, priority, run_at, max_tries, retry_interval,
        retry_jitter, timeout, post_result);
    perform scylla._outbox_check_json(spec, meta);
    if on_conflict is null then
        perform scylla._outbox_refuse('22004', 'on_conflict must not be null');
    elsif on_conflict not in ('error', 'ignore', 'replace') then
        perform scylla._outbox_refuse('22023', format('unrecognized value for on_conflict: "%s"', on_conflict),
            null, 'Use "error", "ignore" or "replace".');
    elsif on_failure is null then
        perform scylla._outbox_refuse('22004', 'on_failure must not be null');
    elsif on_failure not in ('abort', 'run') then
        perform scylla._outbox_refuse('22023', format('unrecognized value for on_failure: "%s"', on_failure),
            null, 'Use "abort" or "run".');
    elsif unique_for <= interval '0' then
        perform scylla._outbox_refuse('22023', 'unique_for must be greater than zero');
    elsif unique_for is not null and key is null then
        perform scylla._outbox_refuse('22023', 'unique_for needs a key', null,
            'Give the task a key, which stays taken for that time.');
    elsif new_id = any (after) then
        perform scylla._outbox_refuse('22023', 'dependency cycle detected',
            format('Task %s depends on itself.', new_id));
    elsif cardinality(after) > 100000 then
        perform scylla._outbox_refuse('54000', 'after must have at most 100000 elements',
            format('The value has %s elements.', cardinality(after)));
    elsif array_position(after, null) is not null then
        perform scylla._outbox_refuse('22004', 'an element of after must not be null');
    end if;
    if key is not null then
        perform scylla._outbox_check_text('key', key, 1, 256);
    end if;
    if group_key is not null then
        perform scylla._outbox_check_text('group_key', group_key, 1, 256);
    end if;
    insert into scylla.outbox (slot, id, queue, spec, action, priority, key, on_conflict, run_at,
        after, on_failure, max_tries, retry_interval, retry_jitter, timeout, post_result, group_key,
        meta, unique_for)
    values (scylla._outbox_slot(), new_id, queue, spec, action, priority, key, on_conflict, run_at,
        after, on_failure, max_tries, retry_interval, retry_jitter, timeout, post_result, group_key,
        meta, unique_for);
    return new_id;
end
$$;
comment on function scylla.submit is 'submits a task, which reaches scylla after the commit; returns its id';

-- Writes a row for each spec. Returns the ids, in order.
create function scylla.submit_many(
    queue text,
    specs jsonb[],
    action text default '',
    priority bigint default 0,
    run_at timestamptz default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    ids uuid[] default null,
    keys text[] default null,
    group_keys text[] default null,
    meta jsonb default null
) returns uuid[]
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    count constant integer := coalesce(cardinality(specs), 0);
    new_ids uuid[];
    differs constant text := case
        when cardinality(ids) <> count then 'ids' when cardinality(keys) <> count then 'keys'
        when cardinality(group_keys) <> count then 'group_keys' end;
    doubled text;
begin
    perform scylla._outbox_check(queue, action, priority, run_at, max_tries, retry_interval,
        retry_jitter, timeout, post_result);
    perform scylla._outbox_check_json('{}', meta);
    if count > 100000 then
        perform scylla._outbox_refuse('54000', 'specs must have at most 100000 elements',
            format('The value has %s elements.', count));
    elsif differs is not null then
        perform scylla._outbox_refuse('22023', format('%s and specs must have the same length', differs));
    elsif count = 0 then
        return '{}';
    end if;
    perform scylla._outbox_check_json(spec, null)
    from unnest(specs) as given (spec) where spec is null or spec = 'null';
    if keys is not null then
        perform scylla._outbox_check_text('key', key, 1, 256)
        from unnest(keys) as given (key) where octet_length(key) not between 1 and 63;
        select min(key) into doubled from unnest(keys) as given (key) group by key having count(key) > 1 limit 1;
        if doubled is not null then
            raise exception using errcode = '23505', constraint = 'task_key', schema = 'scylla', table = 'task',
                message = format('key "%s" already exists in queue "%s"', doubled, queue),
                detail = 'The call has it more than once.';
        end if;
    end if;
    if group_keys is not null then
        perform scylla._outbox_check_text('group_key', group_key, 1, 256)
        from unnest(group_keys) as given (group_key) where octet_length(group_key) not between 1 and 63;
    end if;
    if ids is not null then
        select min(id::text) into doubled from unnest(ids) as given (id) group by id having count(id) > 1 limit 1;
        if doubled is not null then
            raise exception using errcode = '23505', constraint = 'task_pkey', schema = 'scylla', table = 'task',
                message = format('task %s already exists', doubled), detail = 'The call has it more than once.';
        end if;
    end if;
    select array_agg(coalesce(id, scylla._outbox_id()) order by n) into new_ids
    from unnest(specs, ids) with ordinality as given (spec, id, n);
    insert into scylla.outbox (slot, id, queue, spec, action, priority, key, run_at, max_tries,
        retry_interval, retry_jitter, timeout, post_result, group_key, meta)
    select slot.slot, given.id, queue, given.spec, action, priority, given.key, run_at, max_tries,
        retry_interval, retry_jitter, timeout, post_result, given.group_key, meta
    from unnest(new_ids, specs, keys, group_keys) with ordinality as given (id, spec, key, group_key, n),
        (select scylla._outbox_slot() offset 0) as slot (slot)
    order by given.n;
    return new_ids;
end
$$;
comment on function scylla.submit_many is
    'submits a task for each spec, all to one queue; returns their ids, in order';

-- Submits each element of an array of objects. What scylla itself would find, such as a key that is
-- taken, is not known here.
create function scylla.submit_tasks(tasks jsonb, atomic boolean default true)
returns table (id uuid, outcome text, error text)
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    element jsonb;
    place bigint;
    task record;
    unknown text;
    seen uuid[] := '{}';
begin
    if tasks is null or atomic is null then
        perform scylla._outbox_refuse('22004', case when tasks is null then 'tasks' else 'atomic' end || ' must not be null');
    elsif jsonb_typeof(tasks) <> 'array' then
        perform scylla._outbox_refuse('22023', 'tasks must be an array of objects');
    elsif jsonb_array_length(tasks) > 100000 then
        perform scylla._outbox_refuse('54000', 'tasks must have at most 100000 elements',
            format('The value has %s elements.', jsonb_array_length(tasks)));
    end if;
    for element, place in select * from jsonb_array_elements(tasks) with ordinality loop
        id := null;
        begin
            if jsonb_typeof(element) <> 'object' then
                perform scylla._outbox_refuse('22023', 'an element of tasks must be an object');
            end if;
            select min(name) into unknown from jsonb_object_keys(element) as given (name)
            where name not in ('queue', 'spec', 'action', 'priority', 'id', 'key', 'on_conflict', 'run_at',
                'after', 'on_failure', 'max_tries', 'retry_interval', 'retry_jitter', 'timeout',
                'post_result', 'group_key', 'meta', 'unique_for');
            if unknown is not null then
                perform scylla._outbox_refuse('22023', format('unrecognized member of a task: "%s"', unknown),
                    null, 'Name the members after the arguments of scylla.submit.');
            end if;
            select * into task from jsonb_to_record(jsonb '{"spec": {}, "action": "", "priority": 0,
                "on_conflict": "error", "on_failure": "abort", "post_result": false}' || element) as given (
                queue text, spec jsonb, action text, priority bigint, id uuid, key text, on_conflict text,
                run_at timestamptz, after uuid[], on_failure text, max_tries integer, retry_interval interval,
                retry_jitter interval, timeout interval, post_result boolean, group_key text, meta jsonb,
                unique_for interval);
            id := task.id;
            if task.id = any (seen) then
                perform scylla._outbox_refuse('23505', format('task %s already exists', task.id));
            end if;
            id := scylla.submit(task.queue, task.spec, task.action, task.priority, task.id, task.key,
                task.on_conflict, task.run_at, task.after, task.on_failure, task.max_tries,
                task.retry_interval, task.retry_jitter, task.timeout, task.post_result, task.group_key,
                case when element -> 'meta' <> 'null' then task.meta end, task.unique_for);
            if task.id is not null then
                seen := seen || task.id;
            end if;
            outcome := 'inserted';
            error := null;
        exception
            when others then
                if atomic or (sqlstate not like '22%' and sqlstate not in ('23505', '54000', '55000')) then
                    raise;
                end if;
                outcome := case when sqlstate = '23505' then 'duplicate' else 'invalid' end;
                error := sqlerrm;
        end;
        return next;
    end loop;
end
$$;
comment on function scylla.submit_tasks is
    'submits an array of tasks; tells of each whether it was written, a duplicate or invalid';

revoke all on all functions in schema scylla from public;
