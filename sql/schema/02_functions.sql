-- What a call needs and does is in the line above its declaration, which build.rs reads:
--
--   needs PRIVILEGE [or PRIVILEGE] [and PRIVILEGE] on QUEUES[; writes][; on a primary][; at top level]
--   needs nothing | needs ownership
--
-- The caller needs one of the privileges on some queue before the arguments are read. The body checks
-- those of the queues that the call is about, and the privilege behind "and". QUEUES is
--
--   ARGUMENT                  the name of a queue, or an array of names
--   the task ARGUMENT         the queue of the task with this id
--   the tasks ARGUMENT        the queues of the tasks with these ids
--   the queues in ARGUMENT    those that a jsonb names
--   the queue sql             that of the SQL commands
--   a queue                   others, or none
--   all queues                a grant on "*"; ", which its body checks" leaves that to the body, too
--
-- "writes" refuses the call in a read-only transaction and on a standby, "writes unless ARGUMENT" where
-- the argument is not true. "writes as WORDS" has the error name the call so. "on a primary" refuses it on
-- a standby, and "at top level" in a function and in a transaction block.

-- Submitting

-- needs submit on queue; writes
create function scylla.submit(
    queue text,
    spec jsonb default '{}',
    action text default '',
    priority bigint default 0,
    id uuid default null,
    key text default null,
    on_conflict text default 'error',
    run_at timestamptz default null,
    after uuid[] default null,
    on_failure text default 'abort',
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    group_key text default null,
    meta jsonb default null,
    unique_for interval default null
) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_0_2';

comment on function scylla.submit is 'submits one task; returns its id';

-- needs submit on the queues in tasks; writes
create function scylla.submit_tasks(tasks jsonb, atomic boolean default true)
returns table (id uuid, outcome text, error text)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_tasks';

comment on function scylla.submit_tasks is
    'submits an array of tasks; tells of each whether it was inserted, a duplicate or invalid';

-- needs submit on queue; writes
create function scylla.submit_many(
    queue text,
    specs jsonb[],
    action text default '',
    priority bigint default 0,
    run_at timestamptz default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false,
    ids uuid[] default null,
    keys text[] default null,
    group_keys text[] default null,
    meta jsonb default null
) returns uuid[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_many_0_2';

comment on function scylla.submit_many is
    'submits a task for each spec, all to one queue; returns their ids, in order';

-- needs manage on the tasks ids; writes
create function scylla.resubmit(ids uuid[]) returns uuid[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resubmit';

comment on function scylla.resubmit is
    'submits aborted or cancelled tasks again, as new tasks; the new ids, null for any other task';

-- Owning

-- needs work on queue; writes
create function scylla.own_tasks(
    worker text,
    queue text,
    max_tasks integer default 1,
    actions text[] default null,
    timeout interval default null
) returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_tasks_0_2';

comment on function scylla.own_tasks is 'leases the best ready tasks of a queue to a worker';

-- needs work on the task id; writes
create function scylla.own_task(id uuid, worker text, timeout interval default null)
returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_task_0_2';

comment on function scylla.own_task is 'leases one ready task, by its id, to a worker';

-- needs work on queues; writes
create function scylla.own_any(
    worker text,
    queues text[],
    max_tasks integer default 1,
    actions text[] default null,
    timeout interval default null
) returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text,
    created timestamptz, max_tries integer, meta jsonb, queue text
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_any';

comment on function scylla.own_any is
    'leases the best ready tasks of 1 to 16 queues, in the order given, to a worker';

-- needs nothing; writes
create function scylla.register_worker(meta jsonb default '{}') returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_register_worker_0_2';

comment on function scylla.register_worker is 'a worker name that was never handed out before';

-- needs manage on all queues; writes
create function scylla.drain_worker(worker text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_drain_worker';

comment on function scylla.drain_worker is
    'asks a worker to stop: it owns nothing more; false when there is no such worker';

-- Keeping and returning

-- needs work on the task id; writes
create function scylla.extend(
    id uuid, token uuid, timeout interval default null, progress double precision default null
) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_extend';

comment on function scylla.extend is
    'moves a lease''s deadline to now plus timeout; false when the lease is lost';

-- needs work on the tasks ids; writes
create function scylla.extend_tasks(ids uuid[], tokens uuid[], timeout interval default null)
returns boolean[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_extend_tasks';

comment on function scylla.extend_tasks is 'extends many leases; one answer each';

-- needs work on the tasks ids; writes
create function scylla.heartbeat(
    worker text, ids uuid[], tokens uuid[], timeout interval default null,
    progress double precision[] default null
) returns table (id uuid, state text, deadline timestamptz)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_heartbeat';

comment on function scylla.heartbeat is
    'extends many leases of a worker that lives; the state of each: held, cancelled, settled, lost or gone';

-- needs work on the task id; writes
create function scylla.return_task(
    id uuid, token uuid, outcome text default 'completed',
    result jsonb default null, error jsonb default null, run_at timestamptz default null
) returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_task';

comment on function scylla.return_task is
    'ends a lease: completed, aborted, retry or yield; returns the task''s status now';

-- needs work on the tasks ids; writes
create function scylla.return_tasks(
    ids uuid[], tokens uuid[], outcome text default 'completed',
    results jsonb[] default null, errors jsonb[] default null
) returns text[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_tasks';

comment on function scylla.return_tasks is
    'ends many leases; the status of each, null where the token is not valid';

-- needs work on the tasks ids; writes
create function scylla.return_many(
    ids uuid[], tokens uuid[], outcomes text[], results jsonb[] default null,
    errors jsonb[] default null, run_ats timestamptz[] default null
) returns text[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_many';

comment on function scylla.return_many is
    'ends many leases, each with an outcome of its own; the status of each, null where the token is not valid';

-- For the statements that end an ownership. It never fails for what the errors are already: a task
-- must end.
-- needs nothing
create function scylla._errors_with(errors jsonb, error jsonb) returns jsonb
language c volatile strict parallel unsafe as 'MODULE_PATHNAME', 'scylla_errors_with';

comment on function scylla._errors_with is
    'a task''s errors and one more at the end: at most 100, of at most scylla.max_spec_size and 64 kB';

-- Cancelling

-- needs cancel on the task id; writes
create function scylla.cancel(id uuid) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel';

comment on function scylla.cancel is 'cancels a task; false when it was settled already';

-- needs cancel on the tasks ids; writes
create function scylla.cancel_tasks(ids uuid[]) returns boolean[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_tasks';

comment on function scylla.cancel_tasks is
    'cancels many tasks; one answer each, null where there is no such task';

-- needs cancel on queue; writes
create function scylla.cancel_group(queue text, group_key text) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_group';

comment on function scylla.cancel_group is
    'cancels all unfinished tasks of a group of a queue; returns how many';

-- needs cancel on the queues in filter; writes unless dry_run
create function scylla.cancel_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_matching';

comment on function scylla.cancel_matching is
    'cancels the unfinished tasks that a filter takes; returns how many';

-- needs manage on the queues in filter; writes unless dry_run
create function scylla.resubmit_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resubmit_matching';

comment on function scylla.resubmit_matching is
    'resubmits the aborted and cancelled tasks that a filter takes, each once; returns how many';

-- needs cancel on the queues in filter; writes unless dry_run
create function scylla.delete_matching(
    filter jsonb, max_tasks integer default null, dry_run boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delete_matching';

comment on function scylla.delete_matching is
    'deletes the tasks that a filter takes, live and settled ones; returns how many';

-- Delaying

-- needs cancel on the task task; writes
create function scylla.delay(task uuid, until timestamptz) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay';

comment on function scylla.delay(uuid, timestamptz) is
    'postpones a waiting or ready task, or brings it forward; false when it runs or is settled';

-- Dependencies

-- needs look and submit on the tasks run; writes
create function scylla.add_dependencies(after uuid[], run uuid[]) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_add_dependencies';

comment on function scylla.add_dependencies is
    'makes each task of run wait for the task of after at the same place; returns how many links are new';

-- needs cancel on the tasks ids; writes
create function scylla.delete_tasks(ids uuid[]) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delete_tasks';

comment on function scylla.delete_tasks is
    'deletes tasks, and those that are left with nothing to wait for; returns how many went';

-- needs look on queue
create function scylla.task_id(queue text, key text) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_task_id';

comment on function scylla.task_id is
    'the id of a queue''s unfinished task that has a key; null when none has';

-- needs submit on queue; writes
create function scylla.delay(
    id text, deadline timestamptz, queue text, value text,
    key text default null, headers jsonb default '{}'
) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay_message';

comment on function scylla.delay(text, timestamptz, text, text, text, jsonb) is
    'delays a message: at its deadline it is a ready task of its queue; false when it is ignored or dropped';

-- needs submit on queue; writes
create function scylla.delay_messages(queue text, messages jsonb) returns table (id text, outcome text)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay_messages';

comment on function scylla.delay_messages is
    'delays an array of messages; tells of each whether it was delayed, fired, ignored or invalid';

-- needs submit or cancel on queue; writes
create function scylla.cancel_message(queue text, id text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_message';

comment on function scylla.cancel_message is
    'cancels a message that waits; false when none of this id does';

-- Recurring

-- needs nothing
create function scylla.retry_worst_case(max_tries integer, retry_interval interval, retry_jitter interval)
returns interval
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_retry_worst_case';

comment on function scylla.retry_worst_case is
    'how long the pauses of all retries last together at most';

-- Waiting

-- needs work on queue; on a primary; at top level
create procedure scylla.wait_for_work(
    queue text, timeout interval default '30 s', actions text[] default null,
    inout available boolean default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_work';

comment on procedure scylla.wait_for_work is
    'waits until a queue has a ready task of one of the actions; false when the time is over';

-- needs work on queues; on a primary; at top level
create procedure scylla.wait_for_any(
    queues text[], timeout interval default '30 s', actions text[] default null,
    inout queue text default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_any';

comment on procedure scylla.wait_for_any is
    'waits until one of 1 to 16 queues has a ready task; the first that has, null when the time is over';

-- needs work on queues; on a primary; at top level
create procedure scylla.wait_for_event(
    worker text, queues text[], timeout interval default '30 s', actions text[] default null,
    inout event text default null, inout queue text default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_event';

comment on procedure scylla.wait_for_event is
    'waits for what a worker has to do: work, signal (a lease ended without it) or drain; null when the time is over';

-- needs look on the task id; at top level
create procedure scylla.wait_for_task(
    id uuid, timeout interval default '1 minute',
    inout status text default null, inout result jsonb default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_task';

comment on procedure scylla.wait_for_task is
    'waits until a task has settled; both null when the time is over';

-- Queues

-- needs manage on queue; writes
create function scylla.configure_queue(
    queue text,
    timeout interval default null,
    retention interval default null,
    max_running integer default null,
    max_per_second double precision default null,
    aging interval default null,
    keep_finished boolean default null,
    critical boolean default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    max_ready bigint default null,
    max_running_per_group integer default null
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_configure_queue';

comment on function scylla.configure_queue is 'changes settings of a queue; null leaves one as it is';

-- needs manage on queue; writes
create function scylla.reset_queue(queue text, setting text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_reset_queue';

comment on function scylla.reset_queue is 'takes a setting of a queue back to its default';

-- needs manage on queue; writes
create function scylla.pause(queue text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pause';

comment on function scylla.pause is 'makes a queue hand out nothing';

-- needs manage on queue; writes
create function scylla.resume(queue text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resume';

comment on function scylla.resume is 'makes a paused queue hand out tasks again';

-- needs manage on all queues; writes
create function scylla.critical_only(enabled boolean) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_critical_only';

comment on function scylla.critical_only is 'makes only critical queues hand out tasks, or all queues again';

-- needs manage and cancel on all queues; writes
create function scylla.drop_queue(queue text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_drop_queue';

comment on function scylla.drop_queue is
    'drops the tasks, settings, grants and counts of a queue; false when there is no such queue';

-- needs manage on all queues; writes
create function scylla.release_worker(worker text) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_release_worker';

comment on function scylla.release_worker is 'ends all leases of a worker as if they had expired; returns how many';

-- Looking

-- needs nothing
create function scylla.about() returns jsonb
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_about';

comment on function scylla.about is 'what serves here: edition, version, protocol and features, for clients';

-- needs look on the task id
create function scylla.why(id uuid) returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_why';

comment on function scylla.why is 'says in one sentence why a task is not running';

-- needs look on the task id
create function scylla.task(id uuid) returns jsonb
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_task';

comment on function scylla.task is 'the whole entry of a task, live or settled';

-- needs nothing
create function scylla._leases(task uuid default null)
returns table (
    id uuid, owner text, owned_at timestamptz, deadline timestamptz,
    progress double precision, recorded boolean
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_leases';

comment on function scylla._leases is
    'the leases on the board, all or one task''s; one of another open transaction has no owned_at';

-- needs nothing
create function scylla._owned(leased boolean)
returns table (queue text, owner text, tasks uuid[])
language c volatile parallel unsafe cost 1000 rows 5 as 'MODULE_PATHNAME', 'scylla_owned';

comment on function scylla._owned is
    'who has leased which tasks, or reserved them in another open transaction; some in each row';

-- needs nothing
create function scylla._is_owned(task uuid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_is_owned';

comment on function scylla._is_owned is
    'whether a task is among those of scylla._owned() in the same statement, or would be';

-- needs ownership
create function scylla._may_own(task uuid, writer xid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_may_own';

comment on function scylla._may_own is
    'whether nothing holds a ready task, and another transaction wrote its row';

-- needs ownership
create function scylla._group_may_run(queue text, group_hash uuid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_group_may_run';

comment on function scylla._group_may_run is 'whether one more task of a group may be owned';

-- Administering

-- needs manage on all queues, which its body checks; writes
create function scylla.refresh() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_refresh';

comment on function scylla.refresh is 'reads the tables again, after they were changed by hand';

-- needs manage on all queues; writes
create function scylla.open(enabled boolean default true) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_open';

comment on function scylla.open is 'lets this database hand out and fire tasks, or stops it';

-- needs ownership; writes
create function scylla.grant(queue text, role regrole, privileges text[]) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_grant';

comment on function scylla.grant is
    'grants a role privileges on a queue, or on all with *: submit, work, cancel, look, manage';

-- needs ownership; writes
create function scylla.revoke(queue text, role regrole, privileges text[]) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_revoke';

comment on function scylla.revoke is
    'takes back privileges that were granted to a role on a queue, or on all with *';

-- needs nothing
create function scylla._may_look(queue text, monitoring boolean default false) returns boolean
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_may_look';

comment on function scylla._may_look is
    'whether the caller may look at a queue, or monitors it as a member of pg_monitor';

-- needs nothing
create function scylla._first_queue() returns text
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_first_queue';

comment on function scylla._first_queue is
    'a name that is not behind any queue that the caller may look at: where to begin in an index';

-- needs nothing
create function scylla._last_queue() returns text
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_last_queue';

comment on function scylla._last_queue is
    'a name that is not before any queue that the caller may look at: where to end in an index';
