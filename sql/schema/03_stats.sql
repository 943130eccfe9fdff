-- The numbers of queues. What the server counts is in shared memory; the totals are added here every
-- few seconds.

create table scylla.queue_total (
    queue            text        not null collate "C",
    since            timestamptz not null,
    events           bigint[]    not null,
    ready_to_owned   bigint[]    not null,
    owned_to_settled bigint[]    not null,
    used             timestamptz not null default pg_catalog.now(),
    ready_to_owned_sum   bigint  not null default 0,
    owned_to_settled_sum bigint  not null default 0,
    constraint queue_total_pkey primary key (queue)
) with (fillfactor = 50);

comment on table scylla.queue_total is 'what has happened in each queue, as far as it was written';
comment on column scylla.queue_total.queue is 'the queue';
comment on column scylla.queue_total.since is 'since when it is counted';
comment on column scylla.queue_total.events is
    'how many tasks were submitted, owned, completed, aborted, cancelled, retried, yielded, expired, fired';
comment on column scylla.queue_total.ready_to_owned is
    'ownerships by how long the task had been ready: less than 1 ms, 2 ms, 4 ms, and so on';
comment on column scylla.queue_total.owned_to_settled is
    'settled tasks by how long their last ownership took, in the same steps';
comment on column scylla.queue_total.used is
    'when something happened last; later where it was looked whether the queue still has something';
comment on column scylla.queue_total.ready_to_owned_sum is
    'how long the tasks of ready_to_owned were ready together, in microseconds';
comment on column scylla.queue_total.owned_to_settled_sum is
    'how long the ownerships of owned_to_settled took together, in microseconds';
comment on constraint queue_total_pkey on scylla.queue_total is 'finds a queue''s totals by its name';

select pg_catalog.pg_extension_config_dump('scylla.queue_total', '');

-- needs nothing
create function scylla._queue_numbers()
returns table (
    queue text, waiting bigint, ready bigint, running bigint, since timestamptz,
    events bigint[], ready_to_owned bigint[], owned_to_settled bigint[],
    ready_to_owned_sum bigint, owned_to_settled_sum bigint
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_queue_numbers';

comment on function scylla._queue_numbers is
    'the numbers of the queues that the caller may see; since is null where nothing has happened';

-- needs nothing
create function scylla._known_workers(now timestamptz)
returns table (
    worker text, queue text, running bigint, last_seen timestamptz, next_deadline timestamptz
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_known_workers';

comment on function scylla._known_workers is
    'the workers of the queues that the caller may see, as the view shows them at a time';

-- needs nothing
create function scylla._front(queue text, action text, priority bigint)
returns table (lowest bigint, created timestamptz, id uuid)
language c volatile parallel unsafe rows 1 as 'MODULE_PATHNAME', 'scylla_front';

comment on function scylla._front is
    'the priority and age from which the board goes on; no row: it knows no such tasks';

-- needs nothing
create function scylla._oldest_ready(queue text) returns timestamptz
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_oldest_ready';

comment on function scylla._oldest_ready is
    'since when the oldest task of a queue is ready that no worker owns; null: there is no such task';

-- The function shows only what the caller may see.
create view scylla.stats with (security_barrier) as
select n.queue, n.events[1] as submitted, n.events[2] as owned, n.events[3] as completed,
    n.events[4] as aborted, n.events[5] as cancelled, n.events[6] as retried, n.events[7] as yielded,
    n.events[8] as expired, n.events[9] as fired, n.since, n.ready_to_owned, n.owned_to_settled,
    n.ready_to_owned_sum operator(pg_catalog./) 1000000::pg_catalog.float8 as ready_to_owned_sum,
    n.owned_to_settled_sum operator(pg_catalog./) 1000000::pg_catalog.float8 as owned_to_settled_sum
from scylla._queue_numbers() n
where n.since is not null;

comment on view scylla.stats is 'what has happened in each queue';
comment on column scylla.stats.queue is 'the queue';
comment on column scylla.stats.submitted is 'tasks submitted';
comment on column scylla.stats.owned is 'ownerships that began';
comment on column scylla.stats.completed is 'tasks completed';
comment on column scylla.stats.aborted is 'tasks aborted';
comment on column scylla.stats.cancelled is 'tasks cancelled';
comment on column scylla.stats.retried is 'ownerships that ended with another try to come';
comment on column scylla.stats.yielded is 'ownerships that were given back';
comment on column scylla.stats.expired is 'leases that expired';
comment on column scylla.stats.fired is 'tasks that became ready when their time came';
comment on column scylla.stats.since is 'since when the queue is counted';
comment on column scylla.stats.ready_to_owned is
    'ownerships by how long the task had been ready: less than 1 ms, 2 ms, 4 ms, and so on';
comment on column scylla.stats.owned_to_settled is
    'settled tasks by how long their last ownership took, in the same steps';
comment on column scylla.stats.ready_to_owned_sum is
    'how long the tasks of ready_to_owned were ready together, in seconds';
comment on column scylla.stats.owned_to_settled_sum is
    'how long the ownerships of owned_to_settled took together, in seconds';

-- As above.
create view scylla.queues with (security_barrier) as
select n.queue, n.waiting, n.ready, n.running, n.events[3] as completed, n.events[4] as aborted,
    n.events[5] as cancelled,
    -- Without a ready task the search would go through all that workers own.
    case when n.ready operator(pg_catalog.=) 0 then null
        else pg_catalog.clock_timestamp() operator(pg_catalog.-) scylla._oldest_ready(n.queue)
    end as oldest_ready,
    coalesce(q.paused, false) as paused, coalesce(q.critical, false) as critical,
    q.timeout, q.retention, q.max_running, q.max_per_second, q.aging,
    coalesce(q.keep_finished, true) as keep_finished, q.max_tries, q.retry_interval, q.retry_jitter,
    q.max_ready, q.max_running_per_group
from scylla._queue_numbers() n
left join scylla.queue q on q.queue operator(pg_catalog.=) n.queue collate "C";

comment on view scylla.queues is
    'the queues: those with settings, with tasks, and those in which something has happened';
comment on column scylla.queues.queue is 'the queue''s name';
comment on column scylla.queues.waiting is
    'tasks that wait for their time or for others; null: the server is still counting';
comment on column scylla.queues.ready is
    'tasks that a worker could own; null: the server is still counting';
comment on column scylla.queues.running is 'tasks that workers own';
comment on column scylla.queues.completed is 'tasks completed since the queue is counted';
comment on column scylla.queues.aborted is 'tasks aborted since the queue is counted';
comment on column scylla.queues.cancelled is 'tasks cancelled since the queue is counted';
comment on column scylla.queues.oldest_ready is
    'how long the oldest ready task has waited for a worker; null: none is ready';
comment on column scylla.queues.paused is 'whether the queue hands out nothing';
comment on column scylla.queues.critical is
    'whether the queue hands out tasks while only critical queues do';
comment on column scylla.queues.timeout is
    'the lease length of tasks that have none; null: scylla.lease_timeout';
comment on column scylla.queues.retention is
    'how long settled tasks are kept; null: scylla.retention';
comment on column scylla.queues.max_running is
    'how many of its tasks may run at once; null: any number';
comment on column scylla.queues.max_per_second is
    'how many of its tasks may be handed out in a second; null: any number';
comment on column scylla.queues.aging is
    'how long a ready task waits for each point of priority that it gains; null: it gains none';
comment on column scylla.queues.keep_finished is
    'whether a completed task is kept, not deleted as it is returned';
comment on column scylla.queues.max_tries is
    'the tries of tasks that have no number of their own, 0: no limit; null: scylla.max_tries';
comment on column scylla.queues.retry_interval is
    'the first pause of tasks that have none; null: scylla.retry_interval';
comment on column scylla.queues.retry_jitter is
    'the longest random time added to a pause of tasks that have none; null: scylla.retry_jitter';
comment on column scylla.queues.max_ready is
    'how many of its tasks may be ready before submitting more fails; null: any number';
comment on column scylla.queues.max_running_per_group is
    'how many tasks of one group may run at once; null: any number';

-- Counts the ready tasks of groups that the query asks for.
create view scylla.groups with (security_barrier) as
select t.queue, t.group_key,
    pg_catalog.count(*) operator(pg_catalog.-) pg_catalog.count(o.task) as ready,
    pg_catalog.count(o.task) as running,
    pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.min(
        case when o.task is null then greatest(t.created, t.run_at) end) as oldest_ready
from scylla.task t
left join (
    select pg_catalog.unnest(l.tasks) as task from scylla._owned(true) l
) o on o.task operator(pg_catalog.=) t.id
where t.ready and t.group_key is not null
    and t.queue operator(pg_catalog.>=) scylla._first_queue()
    and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
group by t.queue, t.group_key;

comment on view scylla.groups is 'the groups that have ready or running tasks';
comment on column scylla.groups.queue is 'the queue that workers serve';
comment on column scylla.groups.group_key is 'the group, within the queue';
comment on column scylla.groups.ready is 'tasks that a worker could own, were it their turn';
comment on column scylla.groups.running is 'tasks that workers own';
comment on column scylla.groups.oldest_ready is
    'how long the oldest ready task has waited for a worker; null: none is ready';

-- As above.
create view scylla.workers with (security_barrier) as
select w.worker, w.queue, w.running, w.last_seen, w.next_deadline,
    coalesce(r.meta, '{}') as meta, coalesce(r.draining, false) as draining
from scylla._known_workers(pg_catalog.clock_timestamp()) w
left join scylla.worker r on r.name operator(pg_catalog.=) w.worker collate "C";

comment on view scylla.workers is
    'the workers of each queue: those with tasks, and those that called within the last hour';
comment on column scylla.workers.worker is 'the worker''s name';
comment on column scylla.workers.queue is 'the queue that it serves; null: it has not asked for tasks yet';
comment on column scylla.workers.running is 'tasks of the queue that it owns, or is about to';
comment on column scylla.workers.last_seen is
    'when it last asked for tasks of the queue, or extended or returned one';
comment on column scylla.workers.next_deadline is
    'when the first of its leases expires; null: none does';
comment on column scylla.workers.meta is 'what it told of itself when it registered';
comment on column scylla.workers.draining is 'whether it is asked to stop, and owns nothing more';

-- needs nothing
create function scylla._health()
returns table (
    version text, protocol integer, open boolean, scheduler_pid integer, scheduler_since timestamptz,
    scheduler_lag interval, oldest_due interval, board_size integer, board_used integer, lanes integer,
    lanes_used integer, leases_restored integer, xmin_age bigint, xmin_holder text
)
language c volatile parallel unsafe rows 1 as 'MODULE_PATHNAME', 'scylla_health';

comment on function scylla._health is 'how this database and the board are, in one row';

-- The function shows only what the caller may see.
create view scylla.health with (security_barrier) as
select h.version, h.protocol, h.open, h.scheduler_pid, h.scheduler_since, h.scheduler_lag, h.oldest_due,
    h.board_size, h.board_used, h.lanes, h.lanes_used, h.leases_restored, h.xmin_age, h.xmin_holder
from scylla._health() h;

comment on view scylla.health is 'one row for a health check';
comment on column scylla.health.version is 'the version of the extension';
comment on column scylla.health.protocol is 'the version of the calls, for clients';
comment on column scylla.health.open is
    'whether this database hands out tasks; null: the board is not built yet';
comment on column scylla.health.scheduler_pid is 'the scheduler''s process; null: none runs';
comment on column scylla.health.scheduler_since is 'since when it serves this database';
comment on column scylla.health.scheduler_lag is
    'how long it has been late to wake, or at its present round; null: none runs';
comment on column scylla.health.oldest_due is
    'how long the oldest task is due that has not fired; null: none is';
comment on column scylla.health.board_size is 'the tasks for which the board has room, of all databases';
comment on column scylla.health.board_used is 'the tasks that are on the board, of all databases';
comment on column scylla.health.lanes is 'the lanes for which the board has room, of all databases';
comment on column scylla.health.lanes_used is 'the lanes that are on the board, of all databases';
comment on column scylla.health.leases_restored is
    'how many leases were restored when the board was built last';
comment on column scylla.health.xmin_age is
    'how many transactions ago the oldest one began that keeps dead rows; null: none does, or you may not see it';
comment on column scylla.health.xmin_holder is 'what that is: a process, a replication slot or a prepared transaction';
