-- Functions that the specs call: one task, with the same id in all of them, and a table that keeps
-- its tokens out of the output. All are plain SQL functions, so a step remains one statement.
create extension scylla;
create schema helper;
create table helper.held (owner text, token uuid, taken timestamptz default clock_timestamp());

-- The task.
create function helper.id() returns uuid immutable language sql
return '00000000-0000-4000-8000-000000000001'::uuid;

create function helper.submit() returns text language sql
return case scylla.submit('q', id => helper.id()) when helper.id() then 'submitted' end;

-- Owns at most one task of the queue, and keeps its token. Returns the try, or no row.
create function helper.own(owner text, timeout interval default '1 hour') returns setof integer language sql as $$
    with owned as materialized (select * from scylla.own_tasks(owner, 'q', 1, null, timeout)),
        kept as (insert into helper.held (owner, token) select own.owner, token from owned returning 1)
    select tries from owned, kept
$$;
create function helper.own_it(owner text) returns setof integer language sql as $$
    with owned as materialized (select * from scylla.own_task(helper.id(), owner, '1 hour')),
        kept as (insert into helper.held (owner, token) select own_it.owner, token from owned returning 1)
    select tries from owned, kept
$$;

-- The last token that an owner got.
create function helper.token(owner text) returns uuid language sql stable
return (select token from helper.held h where h.owner = token.owner order by taken desc limit 1);

create function helper.extend(owner text, timeout interval default null, progress double precision default null)
returns boolean language sql return scylla.extend(helper.id(), helper.token(owner), timeout, progress);

create function helper.return(owner text, outcome text default 'completed') returns text language sql
return scylla.return_task(helper.id(), helper.token(owner), outcome,
    error => case outcome when 'aborted' then jsonb '{"code": "c", "args": {}, "description": "d"}' end);

create function helper.cancel() returns boolean language sql return scylla.cancel(helper.id());

create function helper.delay(until interval default '1 hour') returns boolean language sql
return scylla.delay(helper.id(), clock_timestamp() + until);

-- The committed state of the task: status, owner, tries and the events of its history.
create function helper.look(out status text, out owner text, out tries integer, out progress double precision, out history text)
language sql as $$
    select e ->> 'status', e ->> 'owner', (e ->> 'tries')::integer, (e ->> 'progress')::double precision,
        (select string_agg(substr(h ->> '_typ', 5) || ' ' || (h ->> 'worker'), ', ' order by n)
            from jsonb_array_elements(e -> 'history') with ordinality as j (h, n))
    from (select scylla.task(helper.id()) as e) as t
$$;

-- More tasks, by number; the first is the task.
create function helper.id(n integer) returns uuid immutable language sql
return ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid;
create function helper.submit(n integer, after integer default null, on_failure text default 'abort') returns text language sql
return case scylla.submit('q', id => helper.id(n), on_failure => on_failure,
    after => case when after is not null then array[helper.id(after)] end) when helper.id(n) then 'submitted' end;
create function helper.own_it(owner text, n integer, timeout interval default '1 hour') returns setof integer language sql as $$
    with owned as materialized (select * from scylla.own_task(helper.id(n), owner, timeout)),
        kept as (insert into helper.held (owner, token) select own_it.owner, token from owned returning 1)
    select tries from owned, kept
$$;
create function helper.return(owner text, n integer, outcome text default 'completed') returns text language sql
return scylla.return_task(helper.id(n), helper.token(owner), outcome,
    error => case outcome when 'aborted' then jsonb '{"code": "c", "args": {}, "description": "d"}' end);
create function helper.add(after integer, run integer) returns integer language sql
return scylla.add_dependencies(array[helper.id(after)], array[helper.id(run)]);
create function helper.delete(n integer) returns integer language sql return scylla.delete_tasks(array[helper.id(n)]);
-- The committed state of all of these tasks.
create function helper.all(out task integer, out status text, out failures integer) returns setof record language sql as $$
    select right(id::text, 12)::integer, status, num_failures from scylla.tasks where queue = 'q' order by id
$$;
-- The status of a task, once the scheduler has done its part: it gets half a minute.
create function helper.until(n integer, wanted text) returns text language plpgsql as $$
begin
    for i in 1..3000 loop
        exit when scylla.task(helper.id(n)) ->> 'status' = wanted;
        perform pg_sleep(0.01);
    end loop;
    return scylla.task(helper.id(n)) ->> 'status';
end $$;
-- How many predecessors the task waits for, once all deferred countdowns have run.
create function helper.pending(n integer) returns integer language plpgsql as $$
begin
    for i in 1..3000 loop
        exit when not exists (select from scylla.countdown);
        perform pg_sleep(0.01);
    end loop;
    return (select pending from scylla.task where id = helper.id(n));
end $$;
-- Submits a task with the key k. Returns the outcome, and which task has the key now.
create function helper.keyed(n integer, on_conflict text default 'error') returns text language sql as $$
    select outcome || ', ' || right(id::text, 12)::integer
    from scylla.submit_tasks(jsonb_build_array(
        jsonb_build_object('queue', 'q', 'id', helper.id(n), 'key', 'k', 'on_conflict', on_conflict)))
$$;

-- Before and after each permutation: creates the task alone; deletes all of it, so that its id is
-- free again.
create procedure helper.begin_with_task() language sql as $$ select helper.submit() $$;
create procedure helper.begin_with_lease(timeout interval default '1 hour') language plpgsql as $$
begin
    perform helper.submit();
    commit;
    perform helper.own('s1', timeout);
end $$;
-- A lease that has expired; no worker has owned the task since.
create procedure helper.begin_with_expired_lease() language plpgsql as $$
begin
    call helper.begin_with_lease('1 ms');
    commit;
    while scylla.task(helper.id()) ->> 'status' <> 'ready' loop
        perform pg_sleep(0.01);
    end loop;
end $$;
create procedure helper.clear() language sql as $$
    select scylla.cancel_tasks(array(select id from scylla.task));
    delete from scylla.finished;
    delete from helper.held;
$$;
