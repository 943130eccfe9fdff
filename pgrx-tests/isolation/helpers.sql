-- What the specs call: one task, the same id in all of them, and the tokens of its owners kept out of
-- sight in a table. All are plain SQL functions, so a step is what it is without them: one statement.
create extension scylla;
create schema helper;
create table helper.held (owner text, token uuid, taken timestamptz default clock_timestamp());

-- The task.
create function helper.id() returns uuid immutable language sql
return '00000000-0000-4000-8000-000000000001'::uuid;

create function helper.submit() returns text language sql
return case scylla.submit('q', id => helper.id()) when helper.id() then 'submitted' end;

-- Owns whatever the queue gives, at most one, and keeps its token. Tells the try, or nothing.
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

-- What became of it, once for all to see: status, owner, tries and the events of its history.
create function helper.look(out status text, out owner text, out tries integer, out progress double precision, out history text)
language sql as $$
    select e ->> 'status', e ->> 'owner', (e ->> 'tries')::integer, (e ->> 'progress')::double precision,
        (select string_agg(substr(h ->> '_typ', 5) || ' ' || (h ->> 'worker'), ', ' order by n)
            from jsonb_array_elements(e -> 'history') with ordinality as j (h, n))
    from (select scylla.task(helper.id()) as e) as t
$$;

-- Before and after each permutation: the task alone, or nothing of it, its id free again.
create procedure helper.begin_with_task() language sql as $$ select helper.submit() $$;
create procedure helper.begin_with_lease(timeout interval default '1 hour') language plpgsql as $$
begin
    perform helper.submit();
    commit;
    perform helper.own('s1', timeout);
end $$;
-- A lease that has run out; nobody has owned the task since.
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
