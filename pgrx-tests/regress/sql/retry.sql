-- Retries with a pause: n tries have n - 1 pauses, retry_interval * 2^n + random(0..retry_jitter).
-- B47, B109: without a pause the task is ready at once.
select scylla.submit('retry', '"at once"', max_tries => 3) as id \gset
select token from scylla.own_task(:'id', 'w') \gset
select scylla.return_task(:'id', :'token', 'retry');
select scylla.task(:'id')->>'status' as status, scylla.task(:'id')->'run_at' as run_at;

-- With run_at it waits until then, without the backoff.
select token from scylla.own_task(:'id', 'w') \gset
select scylla.return_task(:'id', :'token', 'retry', run_at => '2100-01-01Z');
select scylla.task(:'id')->>'status' as status, (scylla.task(:'id')->>'run_at')::timestamptz = '2100-01-01Z' as at_that_time,
    scylla.task(:'id')->'tries' as tries;
select count(*) from scylla.own_tasks('w', 'retry', 9);
select scylla.delay(:'id', now());
select token from scylla.own_task(:'id', 'w') \gset
-- B48: at max_tries the task is aborted, whatever run_at says.
select scylla.return_task(:'id', :'token', 'retry', run_at => '2100-01-01Z', error => '{"code": "last", "args": {}, "description": ""}');
select scylla.task(:'id')->>'status' as status, jsonb_path_query_array(scylla.task(:'id'), '$.errors[*].code') as errors;

-- A run_at in the past makes no pause.
select scylla.submit('retry', '"past"', retry_interval => '1 hour') as id \gset
select token from scylla.own_task(:'id', 'w') \gset
select scylla.return_task(:'id', :'token', 'retry', run_at => '0044-03-15 BC');
select count(*) from scylla.own_task(:'id', 'w');

-- B95: the pause doubles with each try that ended, by an expiry or a retry, but not by a yield.
create procedure tried(task uuid, outcome text) language plpgsql as $$
begin
    perform scylla.return_task(id, token, outcome) from scylla.own_task(task, 'w');
end $$;
create temp view pause as
select spec, status, tries, round(extract(epoch from run_at - updated)::numeric, 1) as pause from scylla.tasks where queue = 'retry.pause';
select scylla.submit('retry.pause', '1', retry_interval => '100 s') as id \gset
call tried(:'id', 'yield');
select * from pause;
call tried(:'id', 'retry');
select * from pause;
select scylla.delay(:'id', now());
call tried(:'id', 'retry');
select * from pause;
select scylla.delay(:'id', now());
call tried(:'id', 'yield');
call tried(:'id', 'retry');
select * from pause;
select scylla.cancel(:'id');

-- B96: with a jitter of 500 ms at most 700, 900 and 1300 ms, and not always the same.
create procedure retried(queue text, retry_interval interval, retry_jitter interval, count integer) language plpgsql as $$
declare ids uuid[]; tokens uuid[]; statuses text[];
begin
    perform scylla.submit(retried.queue, retry_interval => retried.retry_interval, retry_jitter => retried.retry_jitter)
    from generate_series(1, count);
    commit;
    select array_agg(o.id order by o.id), array_agg(o.token order by o.id) into ids, tokens
    from scylla.own_tasks('w', retried.queue, count) o;
    statuses := scylla.return_tasks(ids, tokens, 'retry');
    raise notice '%', (select array_agg(distinct status) from unnest(statuses) status);
end $$;
call retried('retry.jitter', '1000 s', '500 s', 40);
select min(pause) >= 1000 as at_least, max(pause) < 1501 as at_most, max(pause) - min(pause) > 100 as random
from (select extract(epoch from run_at - updated) as pause from scylla.tasks where queue = 'retry.jitter') p;
call retried('retry.only', '0', '500 s', 10);
select min(pause) between 0 and 500 and max(pause) between 0 and 501 as fits
from (select extract(epoch from run_at - updated) as pause from scylla.tasks where queue = 'retry.only') p;
-- Capped at a year.
call retried('retry.year', '10000 years', '10000 years', 2);
select distinct date_trunc('second', run_at - updated) = interval '365 days' as a_year from scylla.tasks where queue = 'retry.year';
call retried('retry.overflow', '178000000 years', '2562047788:00:54.775807', 2);
select count(*) from scylla.tasks where queue = 'retry.overflow' and status = 'waiting' and run_at - updated < interval '365 days 1 second';
select count(scylla.cancel(id)) from scylla.tasks where queue like 'retry%' and status = 'waiting';

-- B96, B98: the maximum of all pauses together.
select scylla.retry_worst_case(4, '200 ms', '500 ms'), scylla.retry_worst_case(1, '1 hour', '1 hour'),
    scylla.retry_worst_case(max_tries => 2, retry_interval => '1 s', retry_jitter => '0'), scylla.retry_worst_case(1000, '0', '0');
select scylla.retry_worst_case(3, '1 year', '0') = interval '730 days' as capped,
    scylla.retry_worst_case(200000, '1 s', '10 years') = interval '1 day' * 365 * 199999 as still_told;
\set VERBOSITY sqlstate
select scylla.retry_worst_case(2147483647, '178000000 years', '178000000 years');
select scylla.retry_worst_case(0, '1 s', '1 s');
select scylla.retry_worst_case(-1, '1 s', '1 s');
select scylla.retry_worst_case(2, '-1 s', '1 s');
select scylla.retry_worst_case(2, '1 s', '-1 s');
select scylla.retry_worst_case(null, '1 s', '1 s');
select scylla.retry_worst_case(2, null, '1 s');
select scylla.retry_worst_case(2, '1 s', null);
\set VERBOSITY default

-- In an array of tasks, too.
select outcome, error from scylla.submit_tasks('[{"queue": "retry.many", "retry_interval": "1 hour", "retry_jitter": "1 minute", "max_tries": 2},
    {"queue": "retry.many", "retry_interval": "-1 hour"}, {"queue": "retry.many", "retry_jitter": "often"}]', false);
select scylla.return_task(id, token, 'retry') from scylla.own_tasks('w', 'retry.many');
drop procedure tried, retried;
