-- Wrong arguments: SQLSTATE and message of each. None of them changes anything.
create function complaint(call text, out state text, out message text, out advice text) language plpgsql as $$
begin
    execute 'select * from ' || call;
    state := '00000';
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, advice = pg_exception_hint;
end $$;

-- A ready task r, a running task o with its token, a completed task c, a cancelled task x, a task w
-- that waits for r, and no task n. r and o have keys.
create temp table known (name text, id uuid, token uuid);
insert into known values ('n', '00000000-0000-4000-8000-000000000060');
insert into known select 'o', '00000000-0000-4000-8000-000000000061' from scylla.submit('errors', id => '00000000-0000-4000-8000-000000000061', key => 'owned');
insert into known select 'c', '00000000-0000-4000-8000-000000000062' from scylla.submit('errors', id => '00000000-0000-4000-8000-000000000062');
insert into known select 'x', '00000000-0000-4000-8000-000000000063' from scylla.submit('errors', id => '00000000-0000-4000-8000-000000000063');
update known k set token = o.token from scylla.own_tasks('w', 'errors', 2, timeout => '1 hour') o where k.id = o.id;
select scylla.return_task(id, token) from known where name = 'c';
select scylla.cancel(id) from known where name = 'x';
insert into known select 'r', '00000000-0000-4000-8000-000000000064' from scylla.submit('errors', id => '00000000-0000-4000-8000-000000000064', key => 'taken');
insert into known select 'w', id from scylla.submit('errors', id => '00000000-0000-4000-8000-000000000065',
    after => array['00000000-0000-4000-8000-000000000064'::uuid]) id;
create temp table before as select * from scylla.tasks;

-- In a call, :o is that task's id, :o.token its token.
create temp table bad (n serial, call text);
insert into bad (call) values
    ($$submit(null)$$), ($$submit('')$$), ($$submit(repeat('q', 49))$$),
    ($$submit('q', null)$$), ($$submit('q', 'null')$$), ($$submit('q', to_jsonb(repeat('x', 1100000)))$$),
    ($$submit('q', action => null)$$), ($$submit('q', action => repeat('a', 129))$$),
    ($$submit('q', priority => null)$$), ($$submit('q', priority => -1)$$), ($$submit('q', priority => 4294967296)$$),
    ($$submit('q', id => :r)$$), ($$submit('q', id => :o)$$), ($$submit('q', id => :c)$$), ($$submit('q', id => :x)$$),
    ($$submit('q', on_conflict => null)$$), ($$submit('q', on_conflict => 'bogus')$$),
    ($$submit('q', on_failure => null)$$), ($$submit('q', on_failure => 'Abort')$$),
    ($$submit('q', max_tries => -1)$$),
    ($$submit('q', retry_interval => '-1 s')$$), ($$submit('q', retry_jitter => '-1 s')$$),
    ($$submit('q', timeout => '0')$$), ($$submit('q', timeout => '-1 s')$$), ($$submit('q', post_result => null)$$),
    ($$submit('q', key => '')$$), ($$submit('q', key => repeat('k', 257))$$),
    ($$submit('q', on_conflict => 'maybe')$$), ($$submit('q', on_failure => 'maybe')$$),
    ($$submit('q', meta => '[]')$$), ($$submit('q', meta => 'null')$$), ($$submit('q', meta => '1')$$),
    ($$submit('q', meta => jsonb_build_object('m', repeat('x', 1100000)))$$),
    ($$submit_many('q', '{1}', meta => '"m"')$$), ($$submit_tasks('[{"queue": "q", "meta": 1}]')$$),
    ($$schedule('bad', '@daily', 'q', meta => '[]')$$), ($$run_sql('select 1', meta => 'true')$$),
    ($$schedule_sql('bad', '@daily', 'select 1', meta => '""')$$),
    ($$submit('q', key => 'k', on_conflict => null)$$), ($$submit('q', run_at => 'infinity')$$),
    ($$submit('q', after => array[:r, null])$$), ($$submit('q', id => :r, after => array[:r])$$),
    ($$submit_tasks(null)$$), ($$submit_tasks('[]', null)$$), ($$submit_tasks('{}')$$), ($$submit_tasks('[1]')$$),
    ($$submit_tasks('[{}]')$$), ($$submit_tasks('[{"queue": "q", "id": "00000000-0000-4000-8000-000000000064"}]')$$),
    ($$submit_tasks('[{"queue": "q"}, {"queue": "q", "Spec": 1}]')$$),
    ($$own_tasks(null, 'errors')$$), ($$own_tasks('', 'errors')$$), ($$own_tasks(repeat('w', 129), 'errors')$$),
    ($$own_tasks('w', null)$$), ($$own_tasks('w', '')$$), ($$own_tasks('w', repeat('q', 49))$$),
    ($$own_tasks('w', 'errors', null)$$), ($$own_tasks('w', 'errors', 0)$$), ($$own_tasks('w', 'errors', -1)$$),
    ($$own_tasks('w', 'errors', 1, array[null::text])$$), ($$own_tasks('w', 'errors', 1, array[repeat('a', 129)])$$),
    ($$own_tasks('w', 'errors', 1, array[array['a']])$$),
    ($$own_tasks('w', 'errors', timeout => '0')$$), ($$own_tasks('w', 'errors', timeout => '-1 s')$$),
    ($$own_any(null, '{errors}')$$), ($$own_any('', '{errors}')$$), ($$own_any('w', null)$$), ($$own_any('w', '{}')$$),
    ($$own_any('w', array_fill('errors'::text, array[17]))$$), ($$own_any('w', '{errors,null}')$$), ($$own_any('w', '{errors,""}')$$),
    ($$own_any('w', '{{errors},{q}}')$$), ($$own_any('w', '{errors,sql}')$$), ($$own_any('w', '{errors}', 0)$$),
    ($$own_any('w', '{errors}', null)$$), ($$own_any('w', '{errors}', 1, array[null::text])$$),
    ($$own_any('w', '{errors}', timeout => '0')$$),
    ($$register_worker(null)$$), ($$register_worker('[]')$$), ($$register_worker('null')$$),
    ($$register_worker(jsonb_build_object('m', repeat('x', 9000)))$$),
    ($$drain_worker(null)$$), ($$drain_worker('')$$), ($$drain_worker(repeat('w', 129))$$),
    ($$heartbeat(null, '{}', '{}')$$), ($$heartbeat('', '{}', '{}')$$), ($$heartbeat(repeat('w', 129), '{}', '{}')$$),
    ($$heartbeat('w', array[:o], '{}')$$), ($$heartbeat('w', array[null::uuid], array[:o.token])$$),
    ($$heartbeat('w', array[array[:o]], array[array[:o.token]])$$), ($$heartbeat('w', array[:o], array[:o.token], '0')$$),
    ($$heartbeat('w', array[:o], array[:o.token], progress => '{}')$$),
    ($$heartbeat('w', array[:o], array[:o.token], progress => '{1.1}')$$),
    ($$heartbeat('w', array[:o], array[:o.token], progress => '{NaN}')$$),
    ($$heartbeat('w', array_fill(:n, array[100001]), array_fill(:n, array[100001]))$$),
    ($$own_task(null, 'w')$$), ($$own_task(:r, null)$$), ($$own_task(:r, '')$$), ($$own_task(:r, 'w', '0')$$),
    ($$own_task(:n, 'w')$$), ($$own_task(:o, 'w')$$), ($$own_task(:c, 'w')$$), ($$own_task(:x, 'w')$$),
    ($$extend(null, :o.token)$$), ($$extend(:o, null)$$), ($$extend(:o, :o.token, '0')$$), ($$extend(:o, :o.token, '-1 s')$$),
    ($$extend(:o, :o.token, progress => -0.1)$$), ($$extend(:o, :o.token, progress => 1.1)$$),
    ($$extend(:o, :o.token, progress => 'NaN')$$), ($$extend(:o, :o.token, progress => 'Infinity')$$),
    ($$extend_tasks(array[:o], '{}')$$),
    ($$extend_tasks(array[null::uuid], array[:o.token])$$), ($$extend_tasks(array[array[:o]], array[array[:o.token]])$$),
    ($$return_task(null, :o.token)$$), ($$return_task(:o, null)$$), ($$return_task(:o, :o.token, null)$$),
    ($$return_task(:o, :o.token, 'done')$$), ($$return_task(:o, :o.token, 'Completed')$$),
    ($$return_task(:o, :o.token, 'aborted')$$), ($$return_task(:o, :o.token, 'aborted', error => 'null')$$),
    ($$return_task(:o, :o.token, 'retry', run_at => 'infinity')$$), ($$return_task(:o, :o.token, 'yield', run_at => 'infinity')$$),
    ($$return_task(:o, :o)$$), ($$return_task(:r, :o.token)$$), ($$return_task(:c, :c.token)$$), ($$return_task(:x, :o.token)$$),
    ($$return_task(:n, :o.token)$$),
    ($$return_tasks(array[:o], '{}')$$),
    ($$return_tasks(array[:o], array[:o.token], 'done')$$), ($$return_tasks(array[:o], array[:o.token], 'aborted')$$),
    ($$return_tasks(array[:o], array[:o.token], results => '{}')$$),
    ($$return_tasks(array[:o], array[:o.token], 'aborted', errors => array[jsonb 'null'])$$),
    ($$return_tasks(array[null::uuid], array[:o.token])$$), ($$return_tasks(array[:o], array[null::uuid])$$),
    ($$cancel(null)$$), ($$cancel(:n)$$),
    ($$cancel_tasks(array[null::uuid])$$), ($$cancel_tasks(array[array[:o]])$$),
    ($$retry_worst_case(null, '1 s', '1 s')$$), ($$retry_worst_case(0, '1 s', '1 s')$$), ($$retry_worst_case(2, '-1 s', '1 s')$$),
    ($$retry_worst_case(2147483647, '1 year', '1 year')$$),
    ($$delay(null::uuid, now())$$), ($$delay(:r, null)$$), ($$delay(:r, 'infinity')$$), ($$delay(:r, '-infinity')$$), ($$delay(:n, now())$$),
    ($$submit('q', key => 'k', after => array[array[:r]])$$), ($$submit('errors', key => 'taken')$$),
    ($$submit('errors', key => 'owned', on_conflict => 'replace')$$), ($$submit('q', id => :n, after => array[:n])$$),
    ($$submit_tasks('[{"queue": "q", "after": "x"}]')$$), ($$submit_tasks('[{"queue": "q", "after": ["x"]}]')$$),
    ($$submit_tasks('[{"queue": "q", "after": [null]}]')$$), ($$submit_tasks('[{"queue": "q", "key": ""}]')$$),
    ($$submit_tasks('[{"queue": "q", "on_conflict": "maybe"}]')$$), ($$submit_tasks('[{"queue": "q", "on_failure": 1}]')$$),
    ($$add_dependencies(array[:r], '{}')$$),
    ($$add_dependencies(array[null::uuid], array[:r])$$), ($$add_dependencies(array[:r], array[null::uuid])$$),
    ($$add_dependencies(array[array[:o]], array[array[:r]])$$), ($$add_dependencies(array[:r], array[:r])$$),
    ($$add_dependencies(array[:n], array[:n])$$), ($$add_dependencies(array[:w], array[:r])$$),
    ($$add_dependencies(array[:r], array[:o])$$), ($$add_dependencies(array[:n], array[:o])$$),
    ($$add_dependencies(array[:r], array[:c])$$), ($$add_dependencies(array[:r], array[:x])$$), ($$add_dependencies(array[:r], array[:n])$$),
    ($$add_dependencies(array[:o, :r], array[:w, :n])$$),
    ($$delete_tasks(array[null::uuid])$$), ($$delete_tasks(array[array[:r]])$$),
    ($$task_id(null, 'k')$$), ($$task_id('', 'k')$$), ($$task_id(repeat('q', 49), 'k')$$),
    ($$task_id('q', null)$$), ($$task_id('q', '')$$), ($$task_id('q', repeat('k', 257))$$),
    ($$why(null)$$), ($$why(:n)$$),
    ($$task(null)$$), ($$task(:n)$$);

create function filled(call text) returns text language plpgsql as $$
declare k record;
begin
    for k in select * from known loop
        call := replace(replace(call, ':' || k.name || '.token', coalesce(quote_literal(k.token), 'null') || '::uuid'),
            ':' || k.name, quote_literal(k.id) || '::uuid');
    end loop;
    return 'scylla.' || call;
end $$;
create temp table answer as select n, call, c.* from bad, lateral complaint(filled(call)) c order by n;
\a
\pset tuples_only
select call, state, message from answer order by n;
\pset tuples_only
\a

-- Style: a phrase in one line, lower case, no full stop; hints are sentences; no token in either (I7).
select message from answer where message !~ '^([a-z]|scylla)' or message ~ '\.$' or message ~ E'\n';
select distinct advice from answer where advice <> '' and advice !~ '^[A-Z].*\.$';
select call from answer, known where position(token::text in message || advice) > 0;
-- Only the SQLSTATEs of the contract.
select distinct state from answer
where state not in ('22023', '22004', '23505', 'P0002', '55006', '55000', '42501', '53400', '25001', '25006', '0A000', '54000');

-- A null array counts as an empty one.
select scylla.extend_tasks(null, null), scylla.return_tasks(null, '{}'), scylla.cancel_tasks(null),
    scylla.add_dependencies('{}', null), scylla.delete_tasks(null);

-- The state is as before.
select count(*) from (table before except select * from scylla.tasks) as changed;
select scylla.extend(id, token) from known where name = 'o';
drop function complaint, filled;
