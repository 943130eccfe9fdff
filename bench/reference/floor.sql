-- The table whose rows are updated by primary key, one in each transaction: the columns of
-- scylla.task, its fillfactor, and no other index. The reference for the cost of one durable row
-- update.
create schema reference;

create table reference.task (like scylla.task including defaults, primary key (id)) with (fillfactor = 80);

-- The benchmark drops the extension between workloads; nothing here may depend on it.
alter table reference.task alter column sender type text, alter column role type text;

create function reference.reload(count bigint) returns void
language plpgsql as $$
begin
    truncate reference.task;
    insert into reference.task (id, queue, action, priority, ready, post_result, created, updated, spec)
    select lpad(to_hex(n), 32, '0')::uuid, 'bench', '', 0, true, false,
        clock_timestamp(), clock_timestamp(), jsonb_build_object('n', n)
    from generate_series(1, count) n;
end
$$;

-- The leases that the heartbeat extends, numbered.
create table reference.held (n bigint primary key, id uuid not null, token uuid not null);

-- Rows are only added; no index. The reference for the cost of one durable new row.
create table reference.heap (
    id       uuid not null default gen_random_uuid(),
    queue    text not null,
    created  timestamptz not null default clock_timestamp(),
    spec     jsonb not null
);

-- Specs that pglz cannot compress, by their size.
create table reference.spec (bytes integer primary key, spec jsonb not null);

create function reference.make_spec(size integer) returns void
language sql as $$
    insert into reference.spec
    select size, jsonb_build_object('text', left(string_agg(encode(sha256(n::text::bytea), 'base64'), ''), greatest(size - 13, 0)))
    from generate_series(1, size / 44 + 1) n
$$;
select reference.make_spec(100), reference.make_spec(10000), reference.make_spec(500000);
