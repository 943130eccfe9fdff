-- The plain queue: the usual design of a queue in a PostgreSQL table. One partial index, rows
-- claimed by FOR UPDATE SKIP LOCKED, completed rows kept. The reference, not a part of scylla.
-- @KEY@ is the type of the primary key, @VALUE@ where its values come from.
create schema plain;

create table plain.job (
    id       @KEY@ @VALUE@ primary key,
    queue    text not null,
    priority bigint not null default 0,
    status   text not null default 'ready',
    spec     jsonb not null,
    created  timestamptz not null default clock_timestamp(),
    updated  timestamptz not null default clock_timestamp(),
    worker   text,
    token    uuid,
    deadline timestamptz,
    tries    integer not null default 0,
    result   jsonb
);

create index job_ready on plain.job (queue, priority desc, created) where status = 'ready';

create function plain.submit(queue text, count bigint) returns void
language sql as $$
    insert into plain.job (queue, spec)
    select queue, jsonb_build_object('n', n) from generate_series(1, count) n
$$;

create function plain.own_one(me text, wanted text) returns setof plain.job
language plpgsql as $$
begin
    return query
    update plain.job j
    set status = 'running', worker = me, token = gen_random_uuid(), tries = j.tries + 1,
        updated = clock_timestamp(), deadline = clock_timestamp() + interval '10 s'
    where j.id = (
        select r.id
        from plain.job r
        where r.queue = wanted and r.status = 'ready'
        order by r.priority desc, r.created
        limit 1
        for update skip locked
    )
    returning j.*;
end
$$;

create function plain.own(me text, wanted text, most integer) returns setof plain.job
language plpgsql as $$
begin
    return query
    update plain.job j
    set status = 'running', worker = me, token = gen_random_uuid(), tries = j.tries + 1,
        updated = clock_timestamp(), deadline = clock_timestamp() + interval '10 s'
    where j.id = any (array(
        select r.id
        from plain.job r
        where r.queue = wanted and r.status = 'ready'
        order by r.priority desc, r.created
        limit most
        for update skip locked
    ))
    returning j.*;
end
$$;

create function plain.extend(task @KEY@, proof uuid) returns boolean
language plpgsql as $$
begin
    update plain.job
    set updated = clock_timestamp(), deadline = clock_timestamp() + interval '10 s'
    where id = task and token = proof and status = 'running';
    return found;
end
$$;

create function plain.complete_one(task @KEY@, proof uuid) returns text
language plpgsql as $$
begin
    update plain.job
    set status = 'completed', updated = clock_timestamp()
    where id = task and token = proof and status = 'running';
    if not found then
        raise exception 'the token is not valid for job %', task;
    end if;
    return 'completed';
end
$$;

-- Statistics of a moment when no job ran would have it read the whole table.
create function plain.complete(tasks @KEY@[], proofs uuid[]) returns bigint
language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    completed bigint;
begin
    update plain.job j
    set status = 'completed', updated = clock_timestamp()
    from unnest(tasks, proofs) as p (id, token)
    where j.id = p.id and j.token = p.token and j.status = 'running';
    get diagnostics completed = row_count;
    return completed;
end
$$;

-- The running jobs that the heartbeat extends, numbered.
create table plain.held (n bigint primary key, id @KEY@ not null, token uuid not null);
