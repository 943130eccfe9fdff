-- The history of a task: each ownership, and each end that did not settle the task.
create function story(task uuid) returns table (n bigint, typ jsonb, worker jsonb, progress jsonb, others text, later boolean)
language sql as $$
    select n, e -> '_typ', e -> 'worker', e -> 'progress',
        array_to_string(array(select jsonb_object_keys(e - '{_typ,worker,progress,time}'::text[])), ','),
        (e ->> 'time')::timestamptz >= lag((e ->> 'time')::timestamptz) over (order by n)
    from jsonb_array_elements(scylla.task(task) -> 'history') with ordinality as h (e, n) order by n
$$;
select scylla.submit('history') as id \gset
select * from story(:'id');
select token from scylla.own_tasks('a', 'history') \gset
select scylla.extend(:'id', :'token', progress => 0.25);
select scylla.extend(:'id', :'token', progress => 0.5);
select * from story(:'id');
select scylla.return_task(:'id', :'token', 'yield');
select token from scylla.own_tasks('b', 'history') \gset
select scylla.extend(:'id', :'token', progress => 1);
select scylla.return_task(:'id', :'token', 'retry');
-- An expired lease.
select token from scylla.own_tasks('c', 'history', timeout => '1 hour') \gset
select scylla.extend(:'id', :'token', '1 ms', 0.75);
create procedure wait_for_expiry(task uuid) language plpgsql as $$
begin
    while scylla.task(task) ->> 'status' <> 'ready' loop
        perform pg_sleep(0.01);
    end loop;
end $$;
call wait_for_expiry(:'id');
select scylla.task(:'id') - '{rn,created,updated,history}'::text[] as entry;
select token from scylla.own_tasks('d', 'history') \gset
select scylla.return_task(:'id', :'token');
select * from story(:'id');

-- A task that yielded has no timeout in its history.
select scylla.submit('history') as id \gset
select token from scylla.own_tasks('a', 'history', timeout => '1 s') \gset
select scylla.return_task(:'id', :'token', 'yield');
select pg_sleep(1.2);
select typ from story(:'id');
select scylla.cancel(:'id');

-- Expiry of the last try aborts the task.
select scylla.submit('history', max_tries => 1, id => '00000000-0000-4000-8000-000000000071') as id \gset
select token from scylla.own_tasks('a', 'history', timeout => '1 ms') \gset
create procedure wait_for_end(task uuid) language plpgsql as $$
begin
    while scylla.task(task) ->> 'status' in ('ready', 'running') loop
        perform pg_sleep(0.01);
    end loop;
end $$;
call wait_for_end(:'id');
select scylla.task(:'id') - '{rn,created,updated,history}'::text[] as entry;
select * from story(:'id');
select scylla.extend(:'id', :'token');

-- The newest hundred events and errors are kept.
select scylla.submit('history.long') as id \gset
do $$
declare o record;
begin
    for n in 1 .. 120 loop
        select * into o from scylla.own_tasks('w' || n, 'history.long');
        perform scylla.return_task(o.id, o.token, 'retry',
            error => jsonb_build_object('code', n::text, 'args', '{}'::jsonb, 'description', ''));
        -- within one transaction nothing of it would be offered again
        commit;
    end loop;
end $$;
select jsonb_array_length(scylla.task(:'id') -> 'history') as events, scylla.task(:'id') #>> '{history,0,worker}' as first,
    scylla.task(:'id') #>> '{history,-1,worker}' as last,
    jsonb_array_length(scylla.task(:'id') -> 'errors') as errors, scylla.task(:'id') #>> '{errors,0,code}' as first,
    scylla.task(:'id') #>> '{errors,-1,code}' as last, scylla.task(:'id') -> 'tries' as tries;
select token from scylla.own_tasks('last', 'history.long') \gset
select jsonb_array_length(scylla.task(:'id') -> 'history') as events, scylla.task(:'id') #>> '{history,-1,worker}' as last;
select scylla.return_task(:'id', :'token', 'aborted', error => '{"code": "end", "args": {}, "description": ""}');
select jsonb_array_length(scylla.task(:'id') -> 'history') as events, jsonb_array_length(scylla.task(:'id') -> 'errors') as errors,
    scylla.task(:'id') #>> '{errors,-1,code}' as last;
drop function story;
drop procedure wait_for_expiry, wait_for_end;
