-- Wrong arguments of schedules: SQLSTATE, message and detail of each. Nothing is changed by any.
\pset null '(null)'
create function complaint(call text, out state text, out message text, out detail text, out advice text) language plpgsql as $$
begin
    execute 'select * from scylla.' || call;
    state := '00000';
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text,
        detail = pg_exception_detail, advice = pg_exception_hint;
end $$;

select scylla.schedule('known', '@daily', 'schedules', starts_at => '2040-01-01 00:00+00') is not null as registered;
create temp table before as select * from scylla.schedules;
create temp table bad (n serial, call text);
insert into bad (call) values
    ($$schedule(null, '@daily', 'q')$$), ($$schedule('', '@daily', 'q')$$), ($$schedule(repeat('n', 129), '@daily', 'q')$$),
    ($$schedule(repeat('n', 10000), '@daily', 'q')$$), ($$schedule(repeat('ü', 65), '@daily', 'q')$$),
    ($$schedule('s', null, 'q')$$), ($$schedule('s', '', 'q')$$), ($$schedule('s', repeat(' ', 1001), 'q')$$),
    ($$schedule('s', '0 0 30 2 *', 'q')$$), ($$schedule('s', '61 * * * * *', 'q')$$), ($$schedule('s', 'daily', 'q')$$),
    ($$schedule('s', '@fortnightly', 'q')$$), ($$schedule('s', 'every 0.9 s', 'q')$$), ($$schedule('s', 'every 1 month', 'q')$$),
    ($$schedule('s', 'every -1 day', 'q')$$), ($$schedule('s', 'every day', 'q')$$), ($$schedule('s', 'every 1 day ago', 'q')$$),
    ($$schedule('s', '@daily', null)$$), ($$schedule('s', '@daily', '')$$), ($$schedule('s', '@daily', repeat('q', 49))$$),
    ($$schedule('s', '@daily', 'q', null)$$), ($$schedule('s', '@daily', 'q', 'null')$$),
    ($$schedule('s', '@daily', 'q', to_jsonb(repeat('x', 1100000)))$$),
    ($$schedule('s', '@daily', 'q', action => null)$$), ($$schedule('s', '@daily', 'q', action => repeat('a', 129))$$),
    ($$schedule('s', '@daily', 'q', priority => null)$$), ($$schedule('s', '@daily', 'q', priority => -1)$$),
    ($$schedule('s', '@daily', 'q', priority => 4294967296)$$),
    ($$schedule('s', '@daily', 'q', time_zone => '')$$), ($$schedule('s', '@daily', 'q', time_zone => 'Europe/Atlantis')$$),
    ($$schedule('s', '@daily', 'q', time_zone => 'UTC+3')$$), ($$schedule('s', '@daily', 'q', time_zone => '../../etc/passwd')$$),
    ($$schedule('s', '@daily', 'q', time_zone => repeat('z', 10000))$$),
    ($$schedule('s', '@daily', 'q', misfire => null)$$), ($$schedule('s', '@daily', 'q', misfire => 'Once')$$),
    ($$schedule('s', '@daily', 'q', overlap => null)$$), ($$schedule('s', '@daily', 'q', overlap => 'once')$$),
    ($$schedule('s', '@daily', 'q', max_tries => -1)$$), ($$schedule('s', '@daily', 'q', retry_interval => '-1 s', max_tries => 2)$$),
    ($$schedule('s', '@daily', 'q', retry_jitter => '-1 s', max_tries => 2)$$), ($$schedule('s', '@daily', 'q', retry_interval => '1 s')$$),
    ($$schedule('s', '@daily', 'q', max_tries => 2, retry_interval => '1 day')$$),
    ($$schedule('s', '@daily', 'q', max_tries => 0)$$), ($$alter_schedule('known', max_tries => 0)$$),
    ($$schedule('s', 'every 2 s', 'q', max_tries => 4, retry_interval => '200 ms', retry_jitter => '500 ms')$$),
    ($$schedule('s', '@daily', 'q', timeout => '0')$$), ($$schedule('s', '@daily', 'q', timeout => '-1 s')$$),
    ($$schedule('s', '@daily', 'q', starts_at => 'infinity')$$), ($$schedule('s', '@daily', 'q', ends_at => '-infinity')$$),
    ($$schedule('s', '@daily', 'q', starts_at => '2040-01-02', ends_at => '2040-01-01')$$),
    ($$unschedule(null)$$), ($$unschedule('')$$), ($$unschedule(repeat('n', 10000))$$),
    ($$alter_schedule(null)$$), ($$alter_schedule('absent')$$), ($$alter_schedule('absent', active => false)$$),
    ($$alter_schedule('known', schedule => '* * * *')$$), ($$alter_schedule('known', ends_at => '2039-12-31')$$),
    ($$alter_schedule('known', retry_interval => '1 s')$$), ($$alter_schedule('known', time_zone => 'x')$$),
    ($$next_runs(null)$$), ($$next_runs('@daily', null)$$), ($$next_runs('@daily', 0)$$), ($$next_runs('@daily', 100001)$$),
    ($$next_runs('@daily', 1, 'x')$$), ($$next_runs('@daily', after => null)$$), ($$next_runs('@daily', after => 'infinity')$$),
    ($$coming_runs(null)$$), ($$coming_runs(until => null)$$), ($$coming_runs(until => 'infinity')$$);
create temp table answer as select n, call, c.* from bad, lateral complaint(call) c order by n;
\a
\pset tuples_only
select call, state, message, detail from answer order by n;
\pset tuples_only
\a

-- Style: a phrase in one line, lower case, no full stop; details and hints are sentences.
select message from answer where message !~ '^([a-z]|scylla)' or message ~ '\.$' or message ~ E'\n';
select distinct detail from answer where detail <> '' and detail !~ '^["A-Z].*\.$';
select distinct advice from answer where advice <> '' and advice !~ '^[A-Z].*\.$';
-- Only the contract's states.
select distinct state from answer where state not in ('22023', '22004', 'P0002', '54000');

-- All is as it was.
select count(*) as changed from (table before except select * from scylla.schedules) as changed;
select count(*) from scylla.schedules where name <> 'known';

-- Plain literals, in order, as names.
select scylla.schedule('plain', '0 9 * * MON-FRI', 'schedules', '{"n": 1}', 'act', 7, 'europe/berlin', 'all', 'skip',
    3, '1 s', '2 s', '3 min', '2040-01-01 00:00+00', '2050-01-01 00:00+00') is not null as registered;
\x
set timezone = 'UTC';
select name, schedule, queue, action, active, time_zone, misfire, overlap, next_run, last_run, fired, completed, aborted,
    skipped, spec, priority, max_tries, retry_interval, retry_jitter, timeout, starts_at, ends_at
from scylla.schedules where name = 'plain';
select scylla.alter_schedule('plain', true, '0 10 * * *', 'other', '{}', '', 0, 'UTC', 'skip', 'allow',
    4, '2 s', '3 s', '4 min', '2041-01-01 00:00+00', '2051-01-01 00:00+00');
select name, schedule, queue, action, active, time_zone, misfire, overlap, next_run, last_run, fired, completed, aborted,
    skipped, spec, priority, max_tries, retry_interval, retry_jitter, timeout, starts_at, ends_at
from scylla.schedules where name = 'plain';
\x
reset timezone;
select scylla.unschedule('plain'), scylla.unschedule('plain') as again, scylla.unschedule('known');
drop function complaint;
