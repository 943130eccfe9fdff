-- The table whose rows are updated by primary key, one in each transaction: the columns of
-- scylla.task, its fillfactor, and no other index. The reference for the cost of one durable row
-- update.
create schema reference;

create table reference.task (like scylla.task including defaults, primary key (id)) with (fillfactor = 80);

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
