-- Two shapes of a queue's tables, written with plain statements: no queue, for nothing is chosen, checked or
-- told to others. `moved` is scylla's: a task that settles is deleted from the live tasks and written to
-- the settled ones. `appended` leaves the row where it is, and adds a narrow record. @SHAPE@ is one of both.
create schema @SHAPE@;

create table @SHAPE@.live (
    like scylla.task including defaults,
    primary key (id)
) with (fillfactor = 80);
alter table @SHAPE@.live alter column sender type text, alter column role type text,
    alter column database_oid type text;
create index live_order on @SHAPE@.live (queue, action, (-priority), created, id)
where ready and not behind and group_key is null;

-- The whole row again, with the indexes of a completed task without a key.
create table @SHAPE@.moved (like scylla.finished including defaults);
alter table @SHAPE@.moved alter column role type text, alter column database_oid type text;
create index moved_id on @SHAPE@.moved (id);
create index moved_queue on @SHAPE@.moved (queue, updated);

-- What is new about a settled task. One index: to find it by its queue, the live row is read.
create table @SHAPE@.settled (
    id      uuid not null,
    updated timestamptz not null,
    status  smallint not null,
    owner   text not null,
    result  jsonb
);
create index settled_id on @SHAPE@.settled (id);

-- The tasks are numbered; so are the batches that are handed out: nothing is searched for.
create sequence @SHAPE@.task;
create sequence @SHAPE@.batch;

create function @SHAPE@.id(n bigint) returns uuid
language sql immutable parallel safe
return lpad(to_hex(n), 32, '0')::uuid;

create function @SHAPE@.fill(count bigint) returns void
language sql as $$
    insert into @SHAPE@.live (id, queue, action, priority, ready, post_result, created, updated, spec)
    select @SHAPE@.id(n), 'bench', '', 0, true, false, clock_timestamp(), clock_timestamp(),
        jsonb_build_object('n', n)
    from (select nextval('@SHAPE@.task') as n from generate_series(1, count)) numbered
$$;

create function @SHAPE@.clear() returns void
language sql as $$
    truncate @SHAPE@.live, @SHAPE@.moved, @SHAPE@.settled;
    select setval('@SHAPE@.task', 1, false);
    select setval('@SHAPE@.batch', 1, false);
$$;

-- The next tasks in their order: those of the index that have not settled.
create function @SHAPE@.next(most bigint) returns setof uuid
language sql stable as $$
    select id from @SHAPE@.live l
    where ready and not behind and group_key is null and queue = 'bench' and action = ''
        and not exists (select from @SHAPE@.settled s where s.id = l.id)
    order by queue, action, (-priority), created, id limit most
$$;
