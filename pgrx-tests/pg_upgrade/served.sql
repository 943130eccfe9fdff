-- After the upgrade, in the database of fill.sql: all is served, and nothing happened while no server was
-- up. :stopped is when the old server was down, :last_worker the name that it gave out last. Prints a
-- line for each check.
\set QUIET on
\set VERBOSITY terse
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on

create procedure pg_temp.expect(what text, query text, expected text, wait boolean default true)
language plpgsql as $$
declare got text;
begin
    for n in 1..600 loop
        execute query into got;
        exit when got is not distinct from expected or not wait;
        commit;
        perform pg_sleep(0.1);
    end loop;
    raise info '% %', case when got is not distinct from expected then 'ok' else 'not ok' end,
        what || case when got is distinct from expected
            then format(': got %s, expected %s', coalesce(got, 'null'), expected) else '' end;
end $$;

create view pg_temp.run as -- of schedules
select queue, split_part(key, '@', 1) as schedule, split_part(key, '@', 2)::timestamptz as at, created
from scylla.tasks where key ~ '@' and queue in ('late_all', 'late_once', 'late_skip');

-- leases
call pg_temp.expect('a saved lease is granted again for one length',
    $$select count(*) filter (where queue = 'kept_running'
            and deadline between pg_postmaster_start_time() + interval '1 hour' and now() + interval '1 hour')
        || ' ' || count(*) from scylla.tasks where queue = 'kept_running' and status = 'running'$$, '200 200');
call pg_temp.expect('its token is valid',
    $$select count(*) filter (where scylla.extend(id, token, '1 hour'))::text from held where queue = 'kept_running'$$,
    '200', false);
call pg_temp.expect('a lease that was too young to be saved is forgotten, and not counted',
    $$select count(*) filter (where scylla.extend(h.id, h.token))
        || ' ' || (select string_agg(distinct status || ' ' || tries, ',') from scylla.tasks where queue = 'late_young')
    from held h where queue = 'late_young'$$, '0 ready 0', false);
call pg_temp.expect('a lease whose deadline has passed lasts once more, and expires',
    $$select string_agg(distinct format('%s %s %s', status, tries, history -> -1 ->> '_typ'), ',')
    from scylla.tasks where queue = 'late_lease'$$, 'ready 1 TaskTimeout');

-- What fell due fires now, and has not before.
call pg_temp.expect('delayed tasks fire', $$select count(*)::text from scylla.task where queue = 'late_delayed' and ready$$, '2001');
call pg_temp.expect('schedules and SQL tasks go on',
    $$select count(*)::text from (
        select max(at) as at from pg_temp.run group by schedule union all select max(at) from public.tick) latest
    where at > pg_postmaster_start_time()$$, '16');
select format($$ between %L and pg_postmaster_start_time()$$, :'stopped') as meanwhile \gset
call pg_temp.expect('nothing was fired or settled while no server was up',
    $$select (select count(*) from scylla.tasks where created $$ || :'meanwhile' || $$ or updated $$ || :'meanwhile' || $$)
        || ' ' || (select count(*) from public.tick where at $$ || :'meanwhile' || $$)
        || ' ' || (select count(*) from scylla.finished where owned_at $$ || :'meanwhile' || $$)$$, '0 0 0', false);
call pg_temp.expect('no expected time of a schedule has two runs',
    $$select (count(*) = count(distinct (schedule, at)))::text from pg_temp.run$$, 'true', false);
-- of five schedules each, the largest time between two runs
create view pg_temp.gap as
select queue, schedule, max(gap) as gap from (
    select queue, schedule, at - lag(at) over (partition by schedule order by at) as gap from pg_temp.run) g
group by queue, schedule;
call pg_temp.expect('with misfire all, no missed run is left out',
    $$select count(*) || ' ' || max(gap) from pg_temp.gap where queue = 'late_all'$$, '5 00:00:01');
call pg_temp.expect('with once and skip, the missed runs are left out',
    $$select string_agg(distinct queue, ' ') || ' ' || count(*) from pg_temp.gap
    where queue <> 'late_all' and gap > pg_postmaster_start_time() - '$$ || :'stopped' || $$' - interval '3 s'$$,
    'late_once late_skip 10', false);

-- what is counted goes on, what is unique is kept
select scylla.submit('late_order') as newest \gset
call pg_temp.expect('a new task is later than all before',
    $$select string_agg(id::text, ' ') from scylla.task where created >= (
        select created from scylla.task where id = '$$ || :'newest' || $$')$$, :'newest', false);
call pg_temp.expect('no name of a worker is given out twice',
    $$select (scylla.register_worker() <> '$$ || :'last_worker' || $$')::text$$, 'true', false);
call pg_temp.expect('no number of a schedule is given out twice',
    $$select (scylla.schedule('new', '@daily', 'late_order') > max(id))::text from scylla.schedule$$, 'true', false);
\set ON_ERROR_STOP off
\set VERBOSITY sqlstate
select scylla.submit('kept_ready', key => 'k7');
\set taken :LAST_ERROR_SQLSTATE
set role upgrade_reader;
select scylla.submit('kept_paused');
\set refused :LAST_ERROR_SQLSTATE
select count(scylla.submit('kept_ready')) || ' ' || (select count(*) from scylla.tasks where queue = 'kept_paused')
    as allowed \gset
reset role;
\set VERBOSITY terse
\set ON_ERROR_STOP on
call pg_temp.expect('a key that a task has is refused', 'select ' || quote_literal(:'taken'), '23505', false);
call pg_temp.expect('a role may do what it was granted, and no more',
    'select ' || quote_literal(:'refused' || ' ' || :'allowed'), '42501 1 10', false);

-- Workers do all that is left.
do $$ declare name text; begin
    for name in select s.name from scylla.schedules s loop
        perform scylla.unschedule(name);
    end loop;
end $$;
select scylla.resume('kept_paused');
select scylla.configure_queue('kept_limited', max_per_second => 1000);
select count(scylla.return_tasks(array[id], array[token])) from held where queue = 'kept_running';
create procedure pg_temp.work() language plpgsql as $$
declare returned integer; name text;
begin
    loop
        returned := 0;
        for name in select queue from scylla.queues where ready > 0 and queue <> 'sql' loop
            returned := returned + (select count(scylla.return_task(id, token)) from scylla.own_tasks('w', name, 1000));
            commit;
        end loop;
        exit when returned = 0;
    end loop;
end $$;
call pg_temp.work();
call pg_temp.expect('workers do all that is left, graphs to their ends',
    $$select string_agg(status || ' ' || queue || ' ' || n, ', ' order by status, queue) from (
        select status, queue, count(*) as n from scylla.tasks where queue ~ '^kept_' and queue <> 'kept_settled'
            or status in ('ready', 'running') group by status, queue) t$$,
    'aborted kept_graph 100, completed kept_graph 1400, completed kept_group 1000, completed kept_paused 10, '
    'completed kept_ready 2001, completed kept_running 200, completed kept_toast 50, '
    'waiting kept_message 100, waiting kept_waiting 500');
call pg_temp.expect('the views agree with the tables',
    $$select count(*) filter (where format('%s %s %s', waiting, ready, running) <> (
        select format('%s %s %s', count(*) filter (where status = 'waiting'), count(*) filter (where status = 'ready'),
            count(*) filter (where status = 'running')) from scylla.tasks t where t.queue = q.queue)) || ' of '
        || (count(*) > 10) from scylla.queues q$$, '0 of true');

-- the pages, row by row and index by index
call pg_temp.expect('tables and indexes are in order',
    $$select string_agg(v.msg, ' ') from pg_class c, verify_heapam(c.oid) v
    where relkind = 'r' and relnamespace in ('scylla'::regnamespace, 'public'::regnamespace)$$, null, false);
select count(bt_index_parent_check(c.oid, true, true)) || ' indexes' as checked
from pg_class c join pg_am a on a.oid = relam
where amname = 'btree' and relkind = 'i' and relnamespace = 'scylla'::regnamespace \gset
call pg_temp.expect(:'checked' || ' have an entry for each row', 'select true', 'true');
