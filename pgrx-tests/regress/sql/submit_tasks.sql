-- Submitting many: a row for each element, in their order.
select outcome, error, scylla.task(id) -> 'spec' as spec
from scylla.submit_tasks('[{"queue": "many", "spec": 1}, {"queue": "many", "spec": 2}, {"queue": "many", "spec": 3}]');
select spec from scylla.own_tasks('w', 'many', 10);
select count(*) from scylla.submit_tasks('[]');

-- The members are submit's arguments.
select outcome, error from scylla.submit_tasks('[{"queue": "many.all", "spec": {"a": 1}, "action": "act", "priority": 5,
    "id": "00000000-0000-4000-8000-000000000011", "max_tries": 2, "timeout": "1 minute", "post_result": true}]');
select queue, action, spec, priority, max_tries, timeout, post_result from scylla.task
where id = '00000000-0000-4000-8000-000000000011';

-- Atomic: the first invalid element raises an error, and no task is inserted.
select * from scylla.submit_tasks('[{"queue": "many.atomic"}, {"queue": ""}]');
\echo :LAST_ERROR_SQLSTATE
select * from scylla.submit_tasks('[{"queue": "many.atomic"}, {"queue": "many", "id": "00000000-0000-4000-8000-000000000011"}]');
\echo :LAST_ERROR_SQLSTATE
select * from scylla.submit_tasks('[{"queue": "many.atomic", "id": "00000000-0000-4000-8000-000000000012"},
    {"queue": "many.atomic", "id": "00000000-0000-4000-8000-000000000012"}]');
select count(*) from scylla.tasks where queue = 'many.atomic';
select count(*) from scylla.own_tasks('w', 'many.atomic');

-- Not atomic: each on its own. The first of two equal ids is inserted; the row of an invalid
-- element says why.
select right(id::text, 2) as id, outcome, error from scylla.submit_tasks('[
    {"queue": "many.each", "id": "00000000-0000-4000-8000-000000000013", "spec": "first"},
    {"queue": "many.each", "id": "00000000-0000-4000-8000-000000000013", "spec": "second"},
    {"queue": "many.each", "id": "00000000-0000-4000-8000-000000000011"},
    {"queue": "many.each", "id": "00000000-0000-4000-8000-000000000014", "priority": -1},
    {"queue": "many.each", "id": "00000000-0000-4000-8000-000000000014"},
    {},
    17,
    {"queue": 17},
    {"queue": null},
    {"queue": "many.each", "spec": null},
    {"queue": "many.each", "colour": "red"},
    {"queue": "many.each", "priority": "1"},
    {"queue": "many.each", "priority": 1.5},
    {"queue": "many.each", "max_tries": -1},
    {"queue": "many.each", "id": "nonsense"},
    {"queue": "many.each", "timeout": "soon"},
    {"queue": "many.each", "timeout": "0"},
    {"queue": "many.each", "post_result": 1}
]', atomic => false) with ordinality order by ordinality;
select spec from scylla.own_tasks('w', 'many.each', 10);

-- A null member counts as absent, where submit's argument may be null.
select outcome, error from scylla.submit_tasks('[{"queue": "many.null", "id": null, "max_tries": null, "timeout": null,
    "key": null, "run_at": null, "after": null}]', false);
select outcome, error from scylla.submit_tasks('[{"queue": "q", "action": null}, {"queue": "q", "priority": null},
    {"queue": "q", "post_result": null}]', false);

-- Defaults may be passed.
select outcome, error from scylla.submit_tasks('[{"queue": "many.default", "on_conflict": "error", "on_failure": "abort",
    "retry_interval": "0", "retry_jitter": "0 s"}]', false);

-- Not an array of objects.
select * from scylla.submit_tasks('{"queue": "q"}');
select * from scylla.submit_tasks(null);
select * from scylla.submit_tasks('[]', null);

-- Many.
select outcome, count(*), count(distinct id) from scylla.submit_tasks(
    (select jsonb_agg(jsonb_build_object('queue', 'many.thousands', 'spec', n)) from generate_series(1, 10000) n))
group by outcome;
select count(*), bool_and(spec::int = ordinality) as in_order
from scylla.own_tasks('w', 'many.thousands', 20000) with ordinality;
