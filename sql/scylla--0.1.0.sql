\echo Use "CREATE EXTENSION scylla" to load this file. \quit
-- The tables are the truth: the tasks in them exist, whatever the board in shared memory says (I1).
-- Only the owner writes them; other roles call functions.

-- A role. Stored by its oid, so that a renamed role stays the same; written and read by its name, so that
-- a dump means the role of that name. A missing one is read as no role: it must not fail the restore.
create type scylla.role;

create function scylla._role_in(cstring) returns scylla.role
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_role_in';

comment on function scylla._role_in is 'reads a role by its name; a missing one is no role';

create function scylla._role_out(scylla.role) returns cstring
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_role_out';

comment on function scylla._role_out is 'writes the name of a role';

create type scylla.role (
    input = scylla._role_in,
    output = scylla._role_out,
    like = pg_catalog.oid
);

comment on type scylla.role is 'a role, stored by oid and dumped by name';

create cast (scylla.role as pg_catalog.oid) without function as assignment;
create cast (pg_catalog.oid as scylla.role) without function as assignment;

comment on cast (scylla.role as pg_catalog.oid) is 'the oid of a role';
comment on cast (pg_catalog.oid as scylla.role) is 'the role of an oid';

create function scylla._group_hash(text) returns uuid
language c immutable strict parallel safe as 'MODULE_PATHNAME', 'scylla_group_hash';

comment on function scylla._group_hash is 'a hash of the key of a group';

create table scylla.task (
    id         uuid        not null,
    queue      text        not null collate "C",
    action     text        not null collate "C",
    priority   bigint      not null,
    ready      boolean     not null,
    post_result boolean    not null,
    held       boolean     not null default false,
    created    timestamptz not null,
    updated    timestamptz not null,
    run_at     timestamptz,
    timeout    interval,
    max_tries  integer,
    tries      integer     not null default 0,
    num_failures integer   not null default 0,
    key        text        collate "C",
    message    text        collate "C",
    group_key  text        collate "C",
    sender     scylla.role,
    due        timestamptz,
    schedule   bigint,
    role       scylla.role,
    database   text        collate "C",
    command    text,
    retry_interval interval,
    retry_jitter interval,
    run_on_failure boolean not null default false,
    followed   boolean     not null default false,
    pending    integer     not null default 0,
    after      uuid[],
    resubmitted_from uuid,
    spec       jsonb       not null,
    errors     jsonb       not null default '[]',
    history    jsonb       not null default '[]',
    constraint task_pkey primary key (id),
    -- A role that may write all tables (pg_write_all_data) has no command run as another role.
    constraint task_role check (
        command is null or pg_catalog.pg_has_role(role::pg_catalog.oid, 'usage'))
) with (
    fillfactor = 80,
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    toast.vacuum_truncate = off,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 10000
);

-- The order in which a lane refills: a row comparison with (-priority, created, id) goes straight
-- to its place.
create index task_lane on scylla.task
    (queue, action, (operator(pg_catalog.-) priority), created, id)
where ready and group_key is null;

-- As task_lane, of the lanes of groups, whatever else the queue has.
create index task_group_lane on scylla.task
    (queue, action, scylla._group_hash(group_key), (operator(pg_catalog.-) priority), created, id)
where ready and group_key is not null;

-- The oldest task of all groups.
create index task_group_age on scylla.task (queue, created, id)
where ready and group_key is not null;

-- A well-known name, and a waiting message's id, are one task's within the queue.
create unique index task_key on scylla.task (key, queue) where key is not null;
create unique index task_message on scylla.task (queue, message) where message is not null;

-- The line of a group: its tasks that were ready once, in the order of submission.
create index task_line on scylla.task (queue, scylla._group_hash(group_key), created, id)
where (ready or held) and group_key is not null;

-- The other tasks of a group.
create index task_group on scylla.task (queue, scylla._group_hash(group_key))
where not (ready or held) and group_key is not null;

-- What waits for its time only, in the order in which it falls due.
create index task_due on scylla.task (due, id) where due is not null;

-- What waits, for whatever, by queue; what keeps its place apart.
create index task_waiting on scylla.task (queue, held, created, id) where not ready;

comment on table scylla.task is 'live tasks: submitted and not yet settled';
comment on constraint task_role on scylla.task is
    'a command runs as a role whose rights the writing role has';
comment on column scylla.task.id is 'the task''s id';
comment on column scylla.task.queue is 'the queue that workers serve';
comment on column scylla.task.action is 'what to do, within the queue';
comment on column scylla.task.priority is 'higher runs first, 0 to 4294967295';
comment on column scylla.task.ready is
    'may be owned; false while the task waits for its time or for others';
comment on column scylla.task.held is
    'waits for its time, and was ready before: it keeps its place in its group';
comment on column scylla.task.post_result is 'whether the result may be waited for';
comment on column scylla.task.created is
    'when the task was submitted, later than all before; among equals the oldest runs first';
comment on column scylla.task.updated is 'when the row was last written';
comment on column scylla.task.run_at is 'not to run before';
comment on column scylla.task.timeout is 'the lease length of this task; null: the server''s';
comment on column scylla.task.max_tries is
    'how many ownerships it gets, 0: no limit; null: the server''s number';
comment on column scylla.task.tries is
    'ownerships that have ended; the board counts the one that has not';
comment on column scylla.task.num_failures is 'predecessors that were aborted or cancelled';
comment on column scylla.task.key is 'well-known name, unique among the queue''s unfinished tasks';
comment on column scylla.task.group_key is
    'the group that the task belongs to, within the queue; null: to none';
comment on column scylla.task.message is 'the id of a delayed message, until it fires';
comment on column scylla.task.sender is 'the role that sent the message';
comment on column scylla.task.due is
    'when the scheduler makes it ready; null: it is ready, or waits for others first';
comment on column scylla.task.schedule is 'the schedule whose run it is; null: none''s';
comment on column scylla.task.role is
    'with whose rights the server runs the command; null: a worker does the task';
comment on column scylla.task.database is 'where the command runs; null: in this database';
comment on column scylla.task.command is 'the SQL command that the server runs';
comment on column scylla.task.retry_interval is
    'the pause before the first retry, doubled for each later one; null: the server''s';
comment on column scylla.task.retry_jitter is
    'the longest random time to add to such a pause; null: the server''s';
comment on column scylla.task.run_on_failure is
    'runs even if a predecessor is aborted or cancelled';
comment on column scylla.task.followed is 'others wait for this task, or did';
comment on column scylla.task.pending is 'predecessors that are not settled yet';
comment on column scylla.task.after is 'all predecessors that it was given';
comment on column scylla.task.resubmitted_from is
    'the aborted or cancelled task that this one repeats';
comment on column scylla.task.spec is 'what the task is about; opaque, never changed';
comment on column scylla.task.errors is 'what went wrong so far, newest last, 100 at most';
comment on column scylla.task.history is
    'what became of earlier ownerships, newest last, 100 at most';
comment on constraint task_pkey on scylla.task is 'finds a task by its id';
comment on index scylla.task_lane is 'the ready order of each lane, from where a refill reads';
comment on index scylla.task_group_lane is
    'the ready order of each group''s lane, from where a refill reads';
comment on index scylla.task_group_age is 'ready tasks of groups, oldest first';
comment on index scylla.task_key is 'one live task a queue and key';
comment on index scylla.task_line is
    'the tasks of a group that were ready once, in the order of submission';
comment on index scylla.task_group is 'the tasks of a group that were never ready';
comment on index scylla.task_message is 'one waiting message a queue and id';
comment on index scylla.task_due is 'what waits for its time only, the next first';
comment on index scylla.task_waiting is 'what waits for its time or for others, by queue';

-- Dependency edges. A transaction marks the predecessor as followed before it adds a row, so that
-- the one that settles the predecessor sees the edge.
create table scylla.dependency (
    after uuid not null,
    task  uuid not null,
    constraint dependency_pkey primary key (after, task)
) with (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 500000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 500000
);

comment on table scylla.dependency is
    'which live task waits for which other; a row goes as its predecessor settles';
comment on column scylla.dependency.after is 'the predecessor';
comment on column scylla.dependency.task is 'the task that waits for it';
comment on constraint dependency_pkey on scylla.dependency is
    'finds the dependents of a predecessor';

-- Dependents that a settling transaction could not count down, since their rows were locked. The
-- scheduler does it later.
create table scylla.countdown (
    task    uuid    not null,
    created timestamptz not null,
    settled integer not null,
    failed  integer not null,
    cause   uuid
) with (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000
);

-- A publication of all tables refuses to delete rows of a table without a replica identity. This
-- one has no key.
alter table scylla.countdown replica identity full;

comment on table scylla.countdown is
    'predecessors that have settled, but are not counted down from the waiting task yet';
comment on column scylla.countdown.task is 'the task that waits';
comment on column scylla.countdown.created is
    'when that was submitted, to tell it from a later task with its id';
comment on column scylla.countdown.settled is 'how many of its predecessors have settled';
comment on column scylla.countdown.failed is 'how many of these were aborted or cancelled';
comment on column scylla.countdown.cause is 'one of those';

create table scylla.finished (
    id         uuid        not null,
    queue      text        not null collate "C",
    action     text        not null collate "C",
    priority   bigint      not null,
    post_result boolean    not null,
    created    timestamptz not null,
    updated    timestamptz not null,
    run_at     timestamptz,
    timeout    interval,
    max_tries  integer,
    retry_interval interval,
    retry_jitter interval,
    tries      integer     not null,
    num_failures integer   not null,
    progress   double precision not null,
    owned_at   timestamptz,
    status     text        not null collate "C",
    key        text        collate "C",
    owner      text        collate "C",
    group_key  text        collate "C",
    schedule   bigint,
    role       scylla.role,
    database   text        collate "C",
    command    text,
    after      uuid[],
    resubmitted_from uuid,
    spec       jsonb       not null,
    result     jsonb,
    errors     jsonb       not null,
    history    jsonb       not null
) partition by range (updated);

-- Takes what no other partition does, so that a missing one never stops anybody from settling a
-- task.
create table scylla.finished_default partition of scylla.finished default;

-- As for countdown: the index by id is no key. A partition does not inherit its replica identity.
alter table scylla.finished replica identity full;
alter table scylla.finished_default replica identity full;

-- Each partition has indexes of its own: of one on the parent, a dump and the attaching of the
-- partition would both make a part. A completed task without a key is in two of them.
create index finished_default_id on scylla.finished_default (id);
create index finished_default_queue on scylla.finished_default (queue, updated);
create index finished_default_key on scylla.finished_default (key) where key is not null;
create index finished_default_status on scylla.finished_default (status, updated)
where status operator(pg_catalog.<>) 'completed';
create index finished_default_failed on scylla.finished_default (queue, status, updated)
where status operator(pg_catalog.<>) 'completed';

-- Tells whether a day's partition can still be made; kept for this seldom filled one only.
create index finished_default_updated on scylla.finished_default (updated);

comment on table scylla.finished is
    'settled tasks, by the time they were settled; rows are only ever added';
comment on column scylla.finished.id is 'the task''s id';
comment on column scylla.finished.queue is 'the task''s queue';
comment on column scylla.finished.action is 'the task''s action';
comment on column scylla.finished.priority is 'the task''s priority';
comment on column scylla.finished.post_result is 'whether the result may be waited for';
comment on column scylla.finished.created is 'when the task was submitted';
comment on column scylla.finished.updated is 'when the task was settled';
comment on column scylla.finished.run_at is 'not to run before';
comment on column scylla.finished.timeout is 'the lease length of the task';
comment on column scylla.finished.max_tries is
    'how many ownerships it could get; null: the server''s number';
comment on column scylla.finished.retry_interval is
    'the pause before its first retry, as it was given';
comment on column scylla.finished.retry_jitter is
    'the longest random time added to such a pause, as it was given';
comment on column scylla.finished.tries is 'how many ownerships it had';
comment on column scylla.finished.num_failures is 'predecessors that were aborted or cancelled';
comment on column scylla.finished.progress is 'the last progress, 0 to 1';
comment on column scylla.finished.owned_at is
    'when the last ownership began, unless the history tells already';
comment on column scylla.finished.status is 'completed, aborted or cancelled';
comment on column scylla.finished.group_key is 'the group that the task belonged to; null: none';
comment on column scylla.finished.key is 'the task''s well-known name';
comment on column scylla.finished.owner is 'the last worker';
comment on column scylla.finished.schedule is 'the schedule whose run it was; null: none''s';
comment on column scylla.finished.role is
    'with whose rights the server runs the command; null: a worker does the task';
comment on column scylla.finished.database is 'where the command runs; null: in this database';
comment on column scylla.finished.command is 'the SQL command that the server runs';
comment on column scylla.finished.after is 'all predecessors that it was given';
comment on column scylla.finished.resubmitted_from is
    'the aborted or cancelled task that this one repeated';
comment on column scylla.finished.spec is 'what the task was about';
comment on column scylla.finished.result is 'what the worker returned';
comment on column scylla.finished.errors is 'what went wrong, newest last';
comment on column scylla.finished.history is 'what became of earlier ownerships, newest last';
comment on table scylla.finished_default is 'settled tasks for which no partition was made in time';
comment on index scylla.finished_default_id is 'finds a settled task by its id';
comment on index scylla.finished_default_queue is 'finds settled tasks by queue and time';
comment on index scylla.finished_default_key is 'finds settled tasks by their key';
comment on index scylla.finished_default_status is 'finds aborted and cancelled tasks by time';
comment on index scylla.finished_default_failed is
    'finds a queue''s aborted and cancelled tasks by time';
comment on index scylla.finished_default_updated is
    'finds a day''s tasks among those without a partition';

create table scylla.lease (
    id        uuid        not null,
    stamp     timestamptz not null,
    seal      bytea       not null,
    worker    text        not null collate "C",
    owned_at  timestamptz not null,
    length    bigint      not null,
    progress  double precision not null,
    recorded  boolean     not null,
    constraint lease_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

comment on table scylla.lease is 'leases that outlive a crash, written behind by the scheduler';
comment on column scylla.lease.id is 'the task''s id';
comment on column scylla.lease.stamp is
    'the task''s updated when the lease stood: on another one the lease is over';
comment on column scylla.lease.seal is 'a hash of the lease''s token';
comment on column scylla.lease.worker is 'who owns the task';
comment on column scylla.lease.owned_at is 'when the ownership began';
comment on column scylla.lease.length is 'the lease''s length in microseconds';
comment on column scylla.lease.progress is 'the worker''s progress, 0 to 1';
comment on column scylla.lease.recorded is
    'whether the task''s history tells of this ownership already';
comment on constraint lease_pkey on scylla.lease is 'finds a lease by its task''s id';

-- A null setting is the server's.
create table scylla.queue (
    queue          text    not null collate "C",
    version        bigint  not null,
    paused         boolean not null default false,
    timeout        interval,
    retention      interval,
    max_running    integer,
    max_per_second double precision,
    aging          interval,
    keep_finished  boolean,
    critical       boolean,
    max_tries      integer,
    retry_interval interval,
    retry_jitter   interval,
    max_ready      bigint,
    max_running_per_group integer,
    constraint queue_pkey primary key (queue),
    constraint queue_settings check (
        timeout operator(pg_catalog.>) interval '0'
        and retention operator(pg_catalog.>=) interval '0'
        and max_running operator(pg_catalog.>) 0
        and max_per_second operator(pg_catalog.>) 0
        and max_per_second operator(pg_catalog.<) double precision 'infinity'
        and aging operator(pg_catalog.>) interval '0'
        and max_tries operator(pg_catalog.>=) 0
        and retry_interval operator(pg_catalog.>=) interval '0'
        and retry_jitter operator(pg_catalog.>=) interval '0'
        and max_ready operator(pg_catalog.>) 0
        and max_running_per_group operator(pg_catalog.>) 0
    )
);

comment on table scylla.queue is 'the settings of queues';
comment on column scylla.queue.queue is 'the queue''s name';
comment on column scylla.queue.version is
    'how often the row was written: of two rows the later one counts';
comment on column scylla.queue.paused is 'whether the queue hands out nothing';
comment on column scylla.queue.timeout is
    'the lease length of tasks that have none; null: scylla.lease_timeout';
comment on column scylla.queue.retention is
    'how long settled tasks are kept; null: scylla.retention';
comment on column scylla.queue.max_running is
    'how many of its tasks may run at once; null: any number';
comment on column scylla.queue.max_per_second is
    'how many of its tasks may be handed out in a second; null: any number';
comment on column scylla.queue.aging is
    'a ready task gains one point of priority per such interval, 255 at most; null: none';
comment on column scylla.queue.keep_finished is
    'false: a completed task is deleted as it is returned; null: true';
comment on column scylla.queue.critical is
    'whether the queue hands out tasks while only critical queues do; null: false';
comment on column scylla.queue.max_tries is
    'the tries of tasks that have no number of their own, 0: no limit; null: scylla.max_tries';
comment on column scylla.queue.retry_interval is
    'the first pause of tasks that have none; null: scylla.retry_interval';
comment on column scylla.queue.retry_jitter is
    'the longest random time added to a pause of tasks that have none; null: scylla.retry_jitter';
comment on column scylla.queue.max_ready is
    'how many of its tasks may be ready before submitting more is refused; null: any number';
comment on column scylla.queue.max_running_per_group is
    'how many tasks of one group may run at once; null: any number';
comment on constraint queue_settings on scylla.queue is 'the values that settings may have';
comment on constraint queue_pkey on scylla.queue is 'finds a queue''s settings by its name';

-- The grants. Without a key: after a restore several may be those of no role.
create table scylla.privilege (
    queue      text        not null collate "C",
    role       scylla.role not null,
    privileges text[]      not null collate "C"
);

alter table scylla.privilege replica identity full;

comment on table scylla.privilege is
    'which role may do what on which queue; changed by scylla.grant and scylla.revoke';
comment on column scylla.privilege.queue is 'the queue; *: all queues';
comment on column scylla.privilege.role is 'the role, and all that inherit its privileges';
comment on column scylla.privilege.privileges is 'submit, work, cancel, look, manage';

create sequence scylla.worker_number;

comment on sequence scylla.worker_number is 'numbers the workers that register';

create sequence scylla.created_until;

comment on sequence scylla.created_until is
    'tasks were submitted before this time, in microseconds since 2000-01-01 UTC';

-- The key is made up: a restored dump adds the row of its origin to that of this creation (I12), and
-- the oid of its database may be the same.
create table scylla.incarnation (
    id       uuid    not null default pg_catalog.gen_random_uuid(),
    database oid     not null,
    open     boolean not null,
    used     boolean not null,
    critical_only boolean not null default false,
    constraint incarnation_pkey primary key (id)
);

-- A dump brings partitions of its own: none are made before it is restored. It is known by a
-- setting that pg_dump writes.
insert into scylla.incarnation (database, open, used)
select d.oid, true, pg_catalog.current_setting('row_security')::pg_catalog.bool
from pg_catalog.pg_database d
where d.datname operator(pg_catalog.=) pg_catalog.current_database();

comment on table scylla.incarnation is
    'which database this is: with any other row than its own it was copied or restored, and is closed';
comment on constraint incarnation_pkey on scylla.incarnation is
    'tells the rows of several databases apart';
comment on column scylla.incarnation.id is 'the row''s number, made up';
comment on column scylla.incarnation.database is 'the oid of the database that wrote the row';
comment on column scylla.incarnation.open is 'false: it hands out and fires nothing';
comment on column scylla.incarnation.used is
    'whether it has made partitions of scylla.finished itself';
comment on column scylla.incarnation.critical_only is 'whether only critical queues hand out tasks';

select pg_catalog.pg_extension_config_dump('scylla.task', '');
select pg_catalog.pg_extension_config_dump('scylla.dependency', '');
select pg_catalog.pg_extension_config_dump('scylla.countdown', '');
select pg_catalog.pg_extension_config_dump('scylla.finished', '');
select pg_catalog.pg_extension_config_dump('scylla.finished_default', '');
select pg_catalog.pg_extension_config_dump('scylla.queue', '');
select pg_catalog.pg_extension_config_dump('scylla.privilege', '');
select pg_catalog.pg_extension_config_dump('scylla.worker_number', '');
select pg_catalog.pg_extension_config_dump('scylla.created_until', '');
select pg_catalog.pg_extension_config_dump('scylla.incarnation', '');
-- Submitting

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
    group_key text default null
) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit';

comment on function scylla.submit is 'submits one task; returns its id';

create function scylla.submit_tasks(tasks jsonb, atomic boolean default true)
returns table (id uuid, outcome text, error text)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_tasks';

comment on function scylla.submit_tasks is
    'submits an array of tasks; tells of each whether it was inserted, a duplicate or invalid';

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
    group_keys text[] default null
) returns uuid[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_submit_many';

comment on function scylla.submit_many is
    'submits a task for each spec, all to one queue; returns their ids, in order';

create function scylla.resubmit(ids uuid[]) returns uuid[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resubmit';

comment on function scylla.resubmit is
    'submits aborted or cancelled tasks again, as new tasks; the new ids, null for any other task';

-- Owning

create function scylla.own_tasks(
    worker text,
    queue text,
    max_tasks integer default 1,
    actions text[] default null,
    timeout interval default null
) returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_tasks';

comment on function scylla.own_tasks is 'leases the best ready tasks of a queue to a worker';

create function scylla.own_task(id uuid, worker text, timeout interval default null)
returns table (
    id uuid, token uuid, action text, spec jsonb, priority bigint, key text,
    tries integer, num_failures integer, deadline timestamptz, group_key text
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_own_task';

comment on function scylla.own_task is 'leases one ready task, by its id, to a worker';

create function scylla.register_worker() returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_register_worker';

comment on function scylla.register_worker is 'a worker name that was never handed out before';

-- Keeping and returning

create function scylla.extend(
    id uuid, token uuid, timeout interval default null, progress double precision default null
) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_extend';

comment on function scylla.extend is
    'moves a lease''s deadline to now plus timeout; false when the lease is lost';

create function scylla.extend_tasks(ids uuid[], tokens uuid[], timeout interval default null)
returns boolean[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_extend_tasks';

comment on function scylla.extend_tasks is 'extends many leases; one answer each';

create function scylla.return_task(
    id uuid, token uuid, outcome text default 'completed',
    result jsonb default null, error jsonb default null, run_at timestamptz default null
) returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_task';

comment on function scylla.return_task is
    'ends a lease: completed, aborted, retry or yield; returns the task''s status now';

create function scylla.return_tasks(
    ids uuid[], tokens uuid[], outcome text default 'completed',
    results jsonb[] default null, errors jsonb[] default null
) returns text[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_return_tasks';

comment on function scylla.return_tasks is
    'ends many leases; the status of each, null where the token is not valid';

-- For the statements that end an ownership. It never fails for what the errors are already: a task
-- must end.
create function scylla._errors_with(errors jsonb, error jsonb) returns jsonb
language c volatile strict parallel unsafe as 'MODULE_PATHNAME', 'scylla_errors_with';

comment on function scylla._errors_with is
    'a task''s errors and one more at the end: at most 100, of at most scylla.max_spec_size and 64 kB';

-- Cancelling

create function scylla.cancel(id uuid) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel';

comment on function scylla.cancel is 'cancels a task; false when it was settled already';

create function scylla.cancel_tasks(ids uuid[]) returns boolean[]
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_tasks';

comment on function scylla.cancel_tasks is
    'cancels many tasks; one answer each, null where there is no such task';

create function scylla.cancel_group(queue text, group_key text) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_group';

comment on function scylla.cancel_group is
    'cancels all unfinished tasks of a group of a queue; returns how many';

-- Delaying

create function scylla.delay(task uuid, until timestamptz) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay';

comment on function scylla.delay(uuid, timestamptz) is
    'postpones a waiting or ready task, or brings it forward; false when it runs or is settled';

-- Dependencies

create function scylla.add_dependencies(after uuid[], run uuid[]) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_add_dependencies';

comment on function scylla.add_dependencies is
    'makes each task of run wait for the task of after at the same place; returns how many links are new';

create function scylla.delete_tasks(ids uuid[]) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delete_tasks';

comment on function scylla.delete_tasks is
    'deletes tasks, and those that are left with nothing to wait for; returns how many went';

create function scylla.task_id(queue text, key text) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_task_id';

comment on function scylla.task_id is
    'the id of a queue''s unfinished task that has a key; null when none has';

create function scylla.delay(
    id text, deadline timestamptz, queue text, value text,
    key text default null, headers jsonb default '{}'
) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay_message';

comment on function scylla.delay(text, timestamptz, text, text, text, jsonb) is
    'delays a message: at its deadline it is a ready task of its queue; false when it is ignored or dropped';

create function scylla.delay_messages(queue text, messages jsonb) returns table (id text, outcome text)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_delay_messages';

comment on function scylla.delay_messages is
    'delays an array of messages; tells of each whether it was delayed, fired, ignored or invalid';

create function scylla.cancel_message(queue text, id text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cancel_message';

comment on function scylla.cancel_message is
    'cancels a message that waits; false when none of this id does';

-- Recurring

create function scylla.retry_worst_case(max_tries integer, retry_interval interval, retry_jitter interval)
returns interval
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_retry_worst_case';

comment on function scylla.retry_worst_case is
    'how long the pauses of all retries last together at most';

-- Waiting

create procedure scylla.wait_for_work(
    queue text, timeout interval default '30 s', actions text[] default null,
    inout available boolean default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_work';

comment on procedure scylla.wait_for_work is
    'waits until a queue has a ready task of one of the actions; false when the time is over';

create procedure scylla.wait_for_any(
    queues text[], timeout interval default '30 s', actions text[] default null,
    inout queue text default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_any';

comment on procedure scylla.wait_for_any is
    'waits until one of 1 to 16 queues has a ready task; the first that has, null when the time is over';

create procedure scylla.wait_for_task(
    id uuid, timeout interval default '1 minute',
    inout status text default null, inout result jsonb default null
)
language c as 'MODULE_PATHNAME', 'scylla_wait_for_task';

comment on procedure scylla.wait_for_task is
    'waits until a task has settled; both null when the time is over';

-- Queues

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

create function scylla.reset_queue(queue text, setting text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_reset_queue';

comment on function scylla.reset_queue is 'takes a setting of a queue back to its default';

create function scylla.pause(queue text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pause';

comment on function scylla.pause is 'makes a queue hand out nothing';

create function scylla.resume(queue text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_resume';

comment on function scylla.resume is 'makes a paused queue hand out tasks again';

create function scylla.critical_only(enabled boolean) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_critical_only';

comment on function scylla.critical_only is 'makes only critical queues hand out tasks, or all queues again';

create function scylla.release_worker(worker text) returns integer
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_release_worker';

comment on function scylla.release_worker is 'ends all leases of a worker as if they had expired; returns how many';

-- Looking

create function scylla.why(id uuid) returns text
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_why';

comment on function scylla.why is 'says in one sentence why a task is not running';

create function scylla.task(id uuid) returns jsonb
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_task';

comment on function scylla.task is 'the whole entry of a task, live or settled';

create function scylla._leases(task uuid default null)
returns table (
    id uuid, owner text, owned_at timestamptz, deadline timestamptz,
    progress double precision, recorded boolean
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_leases';

comment on function scylla._leases is
    'the leases on the board, all or one task''s; one of another open transaction has no owned_at';

create function scylla._owned(leased boolean)
returns table (queue text, owner text, tasks uuid[])
language c volatile parallel unsafe cost 1000 rows 5 as 'MODULE_PATHNAME', 'scylla_owned';

comment on function scylla._owned is
    'who has leased which tasks, or reserved them in another open transaction; some in each row';

create function scylla._is_owned(task uuid) returns boolean
language c volatile parallel unsafe cost 100 as 'MODULE_PATHNAME', 'scylla_is_owned';

comment on function scylla._is_owned is
    'whether a task is among those of scylla._owned() in the same statement, or would be';

-- Administering

create function scylla.refresh() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_refresh';

comment on function scylla.refresh is 'reads the tables again, after they were changed by hand';

create function scylla.open(enabled boolean default true) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_open';

comment on function scylla.open is 'lets this database hand out and fire tasks, or stops it';

create function scylla.grant(queue text, role regrole, privileges text[]) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_grant';

comment on function scylla.grant is
    'grants a role privileges on a queue, or on all with *: submit, work, cancel, look, manage';

create function scylla.revoke(queue text, role regrole, privileges text[]) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_revoke';

comment on function scylla.revoke is
    'takes back privileges that were granted to a role on a queue, or on all with *';

create function scylla._may_look(queue text, monitoring boolean default false) returns boolean
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_may_look';

comment on function scylla._may_look is
    'whether the caller may look at a queue, or monitors it as a member of pg_monitor';

create function scylla._first_queue() returns text
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_first_queue';

comment on function scylla._first_queue is
    'a name that is not behind any queue that the caller may look at: where to begin in an index';

create function scylla._last_queue() returns text
language c stable parallel unsafe as 'MODULE_PATHNAME', 'scylla_last_queue';

comment on function scylla._last_queue is
    'a name that is not before any queue that the caller may look at: where to end in an index';
-- Schedules: tasks that are submitted again and again.

create table scylla.schedule (
    id         bigint      not null generated by default as identity,
    name       text        not null collate "C",
    owner      scylla.role not null,
    active     boolean     not null default true,
    schedule   text        not null collate "C",
    queue      text        not null collate "C",
    spec       jsonb       not null,
    action     text        not null collate "C",
    priority   bigint      not null,
    time_zone  text        not null collate "C",
    misfire    text        not null collate "C",
    overlap    text        not null collate "C",
    max_tries  integer,
    retry_interval interval,
    retry_jitter interval,
    timeout    interval,
    starts_at  timestamptz,
    ends_at    timestamptz,
    database   text        collate "C",
    command    text,
    job        text        collate "C",
    next_run   timestamptz,
    last_run   timestamptz,
    last_task  uuid,
    fired      bigint      not null default 0,
    completed  bigint      not null default 0,
    aborted    bigint      not null default 0,
    skipped    bigint      not null default 0,
    constraint schedule_pkey primary key (id),
    constraint schedule_name unique (name),
    -- As task_role.
    constraint schedule_role check (
        command is null or pg_catalog.pg_has_role(owner::pg_catalog.oid, 'usage'))
) with (
    fillfactor = 80,
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    toast.vacuum_truncate = off,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 10000
);

-- What the scheduler reads: the schedules whose next run is due.
create index schedule_next on scylla.schedule (next_run, id) where next_run is not null;

-- Where the functions of the schema cron find a job by its name.
create index schedule_job on scylla.schedule (job) where job is not null;

comment on index scylla.schedule_job is 'the jobs of the schema cron by their names';

comment on table scylla.schedule is 'schedules, each with its next run and the counts of its runs';
comment on constraint schedule_role on scylla.schedule is
    'commands run as a role whose rights the writing role has';
comment on column scylla.schedule.id is 'the number that schedule() returned';
comment on column scylla.schedule.name is 'the unique name';
comment on column scylla.schedule.owner is 'the role with whose rights the runs are submitted';
comment on column scylla.schedule.active is 'false: nothing runs';
comment on column scylla.schedule.schedule is 'the expression: cron, or every and an interval';
comment on column scylla.schedule.queue is 'the queue of the runs';
comment on column scylla.schedule.spec is 'the spec of the runs';
comment on column scylla.schedule.action is 'the action of the runs';
comment on column scylla.schedule.priority is 'the priority of the runs';
comment on column scylla.schedule.time_zone is 'the time zone in which the expression is read';
comment on column scylla.schedule.misfire is 'what happens to missed runs: skip, once or all';
comment on column scylla.schedule.overlap is 'what happens to a run whose predecessor is unfinished: allow or skip';
comment on column scylla.schedule.max_tries is 'how many tries a run gets; null: as the queue says';
comment on column scylla.schedule.retry_interval is 'the pause before the first retry; null: as the queue says';
comment on column scylla.schedule.retry_jitter is 'the longest random time to add to such a pause; null: as the queue says';
comment on column scylla.schedule.timeout is 'the lease length of a run; null: as the queue says';
comment on column scylla.schedule.starts_at is 'no run is earlier; an interval is counted from here';
comment on column scylla.schedule.ends_at is 'no run is later';
comment on column scylla.schedule.database is 'where the command runs; null: in this database';
comment on column scylla.schedule.command is 'the SQL command of the runs; null: workers do them';
comment on column scylla.schedule.job is 'the job''s name in the schema cron';
comment on column scylla.schedule.next_run is 'the expected time of the next run; null: none is to come';
comment on column scylla.schedule.last_run is 'the expected time of the latest run that fired; null: none did';
comment on column scylla.schedule.last_task is 'the task of that run';
comment on column scylla.schedule.fired is 'how many runs fired';
comment on column scylla.schedule.completed is 'how many of the runs completed, but for those in run_count';
comment on column scylla.schedule.aborted is 'how many of the runs were aborted, but for those in run_count';
comment on column scylla.schedule.skipped is 'how many runs were skipped';
comment on constraint schedule_pkey on scylla.schedule is 'finds a schedule by its number';
comment on constraint schedule_name on scylla.schedule is 'one schedule per name';
comment on index scylla.schedule_name is 'finds a schedule by its name';
comment on index scylla.schedule_next is 'the schedules by their next run';

-- Runs that were missed and are to fire, with misfire 'all'. They wait apart from next_run, so that
-- however many they are, no run that is due now waits for them.
create table scylla.missed (
    schedule   bigint      not null,
    until      timestamptz not null,
    next_run   timestamptz not null,
    constraint missed_pkey primary key (schedule, until)
) with (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000
);

comment on table scylla.missed is 'runs of schedules that were missed and are to fire';
comment on column scylla.missed.schedule is 'the schedule''s id';
comment on column scylla.missed.until is 'the time before which runs were missed';
comment on column scylla.missed.next_run is 'the expected time of the first run that has not fired';
comment on constraint missed_pkey on scylla.missed is 'orders the missed runs by schedule';

-- What settling transactions tell of runs; the scheduler adds it to the schedules behind them, so that
-- no worker waits for a schedule's row.
create table scylla.run_count (
    schedule   bigint      not null,
    completed  integer     not null,
    aborted    integer     not null
) with (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000
);

-- Rows are deleted, which a publication of all tables allows only with an identity.
alter table scylla.run_count replica identity full;

comment on table scylla.run_count is 'runs that have settled, and are not counted in their schedule yet';
comment on column scylla.run_count.schedule is 'the schedule''s id';
comment on column scylla.run_count.completed is 'how many of its runs completed';
comment on column scylla.run_count.aborted is 'how many of its runs were aborted';

select pg_catalog.pg_extension_config_dump('scylla.schedule', '');
select pg_catalog.pg_extension_config_dump('scylla.schedule_id_seq', '');
select pg_catalog.pg_extension_config_dump('scylla.missed', '');
select pg_catalog.pg_extension_config_dump('scylla.run_count', '');

comment on sequence scylla.schedule_id_seq is 'numbers the schedules';

create function scylla.schedule(
    name text,
    schedule text,
    queue text,
    spec jsonb default '{}',
    action text default '',
    priority bigint default 0,
    time_zone text default null,
    misfire text default 'once',
    overlap text default 'allow',
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_schedule';

comment on function scylla.schedule is 'registers a schedule, or replaces the one of that name; returns its number';

create function scylla.unschedule(name text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_unschedule';

comment on function scylla.unschedule is 'removes a schedule; false when no schedule has that name';

create function scylla.alter_schedule(
    name text,
    active boolean default null,
    schedule text default null,
    queue text default null,
    spec jsonb default null,
    action text default null,
    priority bigint default null,
    time_zone text default null,
    misfire text default null,
    overlap text default null,
    max_tries integer default null,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_alter_schedule';

comment on function scylla.alter_schedule is 'changes a schedule; null leaves a value as it is';

create function scylla.next_runs(
    schedule text,
    count integer default 5,
    time_zone text default null,
    after timestamptz default pg_catalog.now()
) returns setof timestamptz
language c volatile parallel unsafe rows 5 as 'MODULE_PATHNAME', 'scylla_next_runs';

comment on function scylla.next_runs is 'the next times of an expression, whether or not it is registered';

create function scylla.coming_runs(
    after timestamptz default pg_catalog.now(),
    until timestamptz default pg_catalog.now() operator(pg_catalog.+) interval '1 day'
) returns table (name text, run_at timestamptz, queue text, action text)
language c volatile parallel unsafe rows 1000 as 'MODULE_PATHNAME', 'scylla_coming_runs';

comment on function scylla.coming_runs is 'the runs of all active schedules that are to come within a time';

create function scylla._fire_schedules(now timestamptz, since timestamptz) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_fire_schedules';

comment on function scylla._fire_schedules is
    'fires the schedules that are due at a time, as a scheduler does that fires since another; for tests';

-- Only the schedules whose queues the caller may look at.
create view scylla.schedules with (security_barrier) as
select s.name, s.schedule, s.queue, s.action, s.active, s.time_zone, s.misfire, s.overlap,
    s.next_run, s.last_run, s.fired,
    s.completed operator(pg_catalog.+) coalesce(c.completed, 0) as completed,
    s.aborted operator(pg_catalog.+) coalesce(c.aborted, 0) as aborted,
    s.skipped, s.id, pg_catalog.pg_get_userbyid(s.owner::pg_catalog.oid) as owner, s.spec, s.priority,
    s.max_tries, s.retry_interval, s.retry_jitter, s.timeout, s.starts_at, s.ends_at, s.database,
    -- It may contain a secret.
    case when pg_catalog.pg_has_role(s.owner::pg_catalog.oid, 'usage') then s.command end
        as command
from scylla.schedule s
left join (
    select r.schedule, pg_catalog.sum(r.completed)::pg_catalog.int8 as completed,
        pg_catalog.sum(r.aborted)::pg_catalog.int8 as aborted
    from scylla.run_count r
    group by r.schedule
) c on c.schedule operator(pg_catalog.=) s.id
where scylla._may_look(s.queue);

comment on view scylla.schedules is 'all schedules, with their next and last run and the counts of their runs';
comment on column scylla.schedules.name is 'the unique name';
comment on column scylla.schedules.schedule is 'the expression: cron, or every and an interval';
comment on column scylla.schedules.queue is 'the queue of the runs';
comment on column scylla.schedules.action is 'the action of the runs';
comment on column scylla.schedules.active is 'false: nothing runs';
comment on column scylla.schedules.time_zone is 'the time zone in which the expression is read';
comment on column scylla.schedules.misfire is 'what happens to missed runs: skip, once or all';
comment on column scylla.schedules.overlap is 'what happens to a run whose predecessor is unfinished: allow or skip';
comment on column scylla.schedules.next_run is 'the expected time of the next run; null: none is to come';
comment on column scylla.schedules.last_run is 'the expected time of the latest run that fired; null: none did';
comment on column scylla.schedules.fired is 'how many runs fired';
comment on column scylla.schedules.completed is 'how many of the runs completed';
comment on column scylla.schedules.aborted is 'how many of the runs were aborted';
comment on column scylla.schedules.skipped is 'how many runs were skipped';
comment on column scylla.schedules.id is 'the number that schedule() returned';
comment on column scylla.schedules.owner is 'the role with whose rights the runs are submitted';
comment on column scylla.schedules.spec is 'the spec of the runs';
comment on column scylla.schedules.priority is 'the priority of the runs';
comment on column scylla.schedules.max_tries is 'how many tries a run gets; null: as the queue says';
comment on column scylla.schedules.retry_interval is 'the pause before the first retry; null: as the queue says';
comment on column scylla.schedules.retry_jitter is 'the longest random time to add to such a pause; null: as the queue says';
comment on column scylla.schedules.timeout is 'the lease length of a run; null: as the queue says';
comment on column scylla.schedules.starts_at is 'no run is earlier; an interval is counted from here';
comment on column scylla.schedules.ends_at is 'no run is later';
comment on column scylla.schedules.database is 'where the command runs; null: in this database';
comment on column scylla.schedules.command is
    'the SQL command of the runs; null: workers do them, or you have no rights of the owner';
-- SQL commands that the server runs itself, as tasks of the queue sql.

create function scylla.run_sql(
    command text,
    database name default null,
    key text default null,
    on_conflict text default 'error',
    priority bigint default 0,
    run_at timestamptz default null,
    after uuid[] default null,
    on_failure text default 'abort',
    max_tries integer default 1,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    post_result boolean default false
) returns uuid
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_run_sql';

comment on function scylla.run_sql is
    'submits an SQL command that the server runs as the calling role; returns the task''s id';

create function scylla.schedule_sql(
    name text,
    schedule text,
    command text,
    database name default null,
    time_zone text default null,
    misfire text default 'once',
    overlap text default 'skip',
    max_tries integer default 1,
    retry_interval interval default null,
    retry_jitter interval default null,
    timeout interval default null,
    starts_at timestamptz default null,
    ends_at timestamptz default null
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_schedule_sql';

comment on function scylla.schedule_sql is
    'registers a schedule of an SQL command, or replaces the one of that name; returns its number';

create function scylla.enable_cron_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_enable_cron_api';

comment on function scylla.enable_cron_api is
    'creates the schema cron with the functions and views of pg_cron';

create function scylla.disable_cron_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_disable_cron_api';

comment on function scylla.disable_cron_api is 'drops the schema cron; its jobs stay as schedules';

create function scylla.import_cron_jobs() returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_import_cron_jobs';

comment on function scylla.import_cron_jobs is
    'moves the jobs of pg_cron to schedules; returns how many';

create function scylla._cron_schedule(
    job_name text,
    schedule text,
    command text,
    database text default null,
    username text default null,
    active boolean default true
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_schedule';

comment on function scylla._cron_schedule is 'schedules a job for cron.schedule()';

create function scylla._cron_unschedule(job_id bigint, job_name text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_unschedule';

comment on function scylla._cron_unschedule is 'removes a job for cron.unschedule()';

create function scylla._cron_alter(
    job_id bigint,
    schedule text,
    command text,
    database text,
    username text,
    active boolean
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_cron_alter';

comment on function scylla._cron_alter is 'changes a job for cron.alter_job()';
-- The numbers of queues. What the server counts is in shared memory; the totals are added here every
-- few seconds.

create table scylla.queue_total (
    queue            text        not null collate "C",
    since            timestamptz not null,
    events           bigint[]    not null,
    ready_to_owned   bigint[]    not null,
    owned_to_settled bigint[]    not null,
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
comment on constraint queue_total_pkey on scylla.queue_total is 'finds a queue''s totals by its name';

select pg_catalog.pg_extension_config_dump('scylla.queue_total', '');

create function scylla._queue_stats()
returns table (
    queue text, waiting bigint, ready bigint, running bigint, since timestamptz,
    events bigint[], ready_to_owned bigint[], owned_to_settled bigint[]
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_queue_stats';

comment on function scylla._queue_stats is
    'the numbers of the queues that the caller may see; since is null where nothing has happened';

create function scylla._known_workers(now timestamptz)
returns table (
    worker text, queue text, running bigint, last_seen timestamptz, next_deadline timestamptz
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_known_workers';

comment on function scylla._known_workers is
    'the workers of the queues that the caller may see, as the view shows them at a time';

create function scylla._front(queue text, action text, priority bigint)
returns table (lowest bigint, created timestamptz, id uuid)
language c volatile parallel unsafe rows 1 as 'MODULE_PATHNAME', 'scylla_front';

comment on function scylla._front is
    'the priority and age from which the board goes on; no row: it knows no such tasks';

create function scylla._oldest_ready(queue text) returns timestamptz
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_oldest_ready';

comment on function scylla._oldest_ready is
    'since when the oldest task of a queue is ready that no worker owns; null: there is no such task';

-- The function shows only what the caller may see.
create view scylla.stats as
select n.queue, n.events[1] as submitted, n.events[2] as owned, n.events[3] as completed,
    n.events[4] as aborted, n.events[5] as cancelled, n.events[6] as retried, n.events[7] as yielded,
    n.events[8] as expired, n.events[9] as fired, n.since, n.ready_to_owned, n.owned_to_settled
from scylla._queue_stats() n
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

-- As above.
create view scylla.queues as
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
from scylla._queue_stats() n
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
create view scylla.workers as
select w.worker, w.queue, w.running, w.last_seen, w.next_deadline
from scylla._known_workers(pg_catalog.clock_timestamp()) w;

comment on view scylla.workers is
    'the workers of each queue: those with tasks, and those that called within the last hour';
comment on column scylla.workers.worker is 'the worker''s name';
comment on column scylla.workers.queue is 'the queue that it serves';
comment on column scylla.workers.running is 'tasks of the queue that it owns, or is about to';
comment on column scylla.workers.last_seen is
    'when it last asked for tasks of the queue, or extended or returned one';
comment on column scylla.workers.next_deadline is
    'when the first of its leases expires; null: none does';
-- The newest 100 entries of a history.
create function scylla._newest(entries jsonb) returns jsonb
language sql immutable parallel safe
return case
    when pg_catalog.jsonb_array_length(entries) <= 100 then entries
    else pg_catalog.jsonb_path_query_array(entries, '$[last - 99 to last]')
end;

comment on function scylla._newest is 'the newest 100 entries of a jsonb array';

-- A history together with the ownership that it does not tell of yet; null: none.
create function scylla._history_with(history jsonb, worker text, owned_at timestamptz) returns jsonb
language sql stable parallel safe
return case
    when owned_at is null then history
    else scylla._newest(history operator(pg_catalog.||) pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_object('_typ', 'TaskAssignment', 'worker', worker, 'time', owned_at)))
end;

comment on function scylla._history_with is 'a history with one more assignment at its end';

-- Each part has one status, so that a query by status reads no other part, and only what the caller
-- may look at: a condition of the query cannot see the rest. The first and the last queue are there
-- for the indexes, which begin with the queue. Columns have the same type and collation in each part:
-- else PostgreSQL plans each part alone. The outer query is the barrier, which a union is not.
create view scylla.tasks with (security_barrier) as
select p.id, p.queue, p.action, p.key, p.spec, p.priority, p.status, p.progress, p.created, p.updated,
    p.run_at, p.deadline, p.owner, p.tries, p.max_tries, p.num_failures, p.after, p.errors, p.result,
    p.history, p.group_key, p.resubmitted_from,
    -- A command may contain a secret.
    pg_catalog.pg_get_userbyid(p.role::pg_catalog.oid) as role, p.database,
    case when pg_catalog.pg_has_role(p.role::pg_catalog.oid, 'usage') then p.command end as command
from (
    -- Owned: the board knows the worker. A lease that ends meanwhile has no deadline any more.
    -- By _is_owned, which costs more than an index, no plan reads all tasks to find these.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'running'::pg_catalog.text collate "C" as status, coalesce(l.progress, 0) as progress,
        t.created, t.updated, t.run_at, l.deadline, o.owner collate "C" as owner,
        t.tries operator(pg_catalog.+) (not coalesce(l.recorded, false))::pg_catalog.int4 as tries,
        t.max_tries, t.num_failures,
        coalesce(t.after, '{}') as after, t.errors, null::pg_catalog.jsonb as result,
        scylla._history_with(
            t.history, o.owner, case when not l.recorded then l.owned_at end) as history,
        t.group_key, t.resubmitted_from, t.role, t.database, t.command
    from scylla._owned(true) o
    join scylla.task t
        on t.queue operator(pg_catalog.=) o.queue and t.id operator(pg_catalog.=) any (o.tasks)
        and scylla._is_owned(t.id)
    left join lateral scylla._leases(t.id) l on true
    union all
    -- Reserved by another open transaction: it has an owner already.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, o.owner collate "C", t.tries, t.max_tries, t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command
    from scylla._owned(false) o
    join scylla.task t
        on t.queue operator(pg_catalog.=) o.queue and t.id operator(pg_catalog.=) any (o.tasks)
        and scylla._is_owned(t.id)
    union all
    -- Ready and not owned. Tasks of groups have an index of their own.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command
    from scylla.task t
    where t.ready and t.group_key is null and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'ready'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command
    from scylla.task t
    where t.ready and t.group_key is not null and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    -- A task whose lease has expired a moment ago is still owned, and waits already.
    select t.id, t.queue, t.action, t.key, t.spec, t.priority,
        'waiting'::pg_catalog.text collate "C", 0::pg_catalog.float8, t.created, t.updated, t.run_at,
        null::pg_catalog.timestamptz, null::pg_catalog.text collate "C", t.tries, t.max_tries,
        t.num_failures,
        coalesce(t.after, '{}'), t.errors, null::pg_catalog.jsonb, t.history, t.group_key,
        t.resubmitted_from, t.role, t.database, t.command
    from scylla.task t
    where not t.ready and not scylla._is_owned(t.id)
        and t.queue operator(pg_catalog.>=) scylla._first_queue()
        and t.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(t.queue)
    union all
    select f.id, f.queue, f.action, f.key, f.spec, f.priority,
        f.status, f.progress, f.created, f.updated, f.run_at,
        null::pg_catalog.timestamptz, f.owner, f.tries, f.max_tries, f.num_failures,
        coalesce(f.after, '{}'), f.errors, f.result,
        scylla._history_with(f.history, f.owner, f.owned_at), f.group_key, f.resubmitted_from,
        f.role, f.database, f.command
    from scylla.finished f
    where f.queue operator(pg_catalog.>=) scylla._first_queue()
        and f.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(f.queue)
) p;

comment on view scylla.tasks is 'all tasks, live and settled, with their leases';
comment on column scylla.tasks.id is 'the task''s id';
comment on column scylla.tasks.queue is 'the queue that workers serve';
comment on column scylla.tasks.action is 'what to do, within the queue';
comment on column scylla.tasks.key is
    'a name that is unique among the queue''s unfinished tasks; null: none';
comment on column scylla.tasks.spec is 'what the task is about';
comment on column scylla.tasks.priority is 'higher runs first, 0 to 4294967295';
comment on column scylla.tasks.status is 'waiting, ready, running, completed, aborted or cancelled';
comment on column scylla.tasks.progress is 'the worker''s progress, 0 to 1';
comment on column scylla.tasks.created is
    'when the task was submitted; among equal priorities the oldest runs first';
comment on column scylla.tasks.updated is 'when the task''s row was last written';
comment on column scylla.tasks.run_at is 'not to run before; null: at once';
comment on column scylla.tasks.deadline is
    'when the lease expires; null: it never does, or the task is not running';
comment on column scylla.tasks.owner is
    'the worker that owns the task, is about to, or owned it last if it has settled';
comment on column scylla.tasks.tries is 'how many times the task was owned';
comment on column scylla.tasks.max_tries is 'how many tries the task gets; null: no limit';
comment on column scylla.tasks.num_failures is 'predecessors that were aborted or cancelled';
comment on column scylla.tasks.after is 'all predecessors that the task was given';
comment on column scylla.tasks.errors is 'what went wrong so far, newest last, 100 at most';
comment on column scylla.tasks.result is
    'what the worker returned; null: nothing, or the task has not completed';
comment on column scylla.tasks.history is 'ownerships and how they ended, newest last, 100 at most';
comment on column scylla.tasks.group_key is 'the task''s group, within the queue; null: none';
comment on column scylla.tasks.resubmitted_from is
    'the aborted or cancelled task that this one repeats; null: none';
comment on column scylla.tasks.role is
    'with whose rights the server runs the command; null: a worker does the task';
comment on column scylla.tasks.database is 'where the command runs; null: in this database';
comment on column scylla.tasks.command is
    'the SQL command that the server runs; null: a worker does the task, or you have no rights of the role';

create view scylla.failed with (security_barrier) as
select f.id, f.queue, f.action, f.key, f.spec,
    f.errors operator(pg_catalog.->) -1 as error,
    f.tries, f.updated
from scylla.finished f
where f.status operator(pg_catalog.=) 'aborted'
    and f.queue operator(pg_catalog.>=) scylla._first_queue()
    and f.queue operator(pg_catalog.<=) scylla._last_queue() and scylla._may_look(f.queue)
order by f.updated using operator(pg_catalog.>);

comment on view scylla.failed is 'aborted tasks, the newest first';
comment on column scylla.failed.id is 'the task''s id';
comment on column scylla.failed.queue is 'the queue that workers serve';
comment on column scylla.failed.action is 'what to do, within the queue';
comment on column scylla.failed.key is 'the name that it had; null: none';
comment on column scylla.failed.spec is 'what the task is about';
comment on column scylla.failed.error is 'the last thing that went wrong';
comment on column scylla.failed.tries is 'how many times the task was owned';
comment on column scylla.failed.updated is 'when the task was aborted';
-- Tables are closed to all roles but the owner. Anyone may call functions and read views: each call
-- checks what the caller may do, and each view shows what the caller may look at.
revoke all on all tables in schema scylla from public;
revoke all on all sequences in schema scylla from public;
grant usage on schema scylla to public;
grant execute on all routines in schema scylla to public;
grant select on scylla.tasks, scylla.failed, scylla.schedules, scylla.queues, scylla.groups,
    scylla.stats, scylla.workers to public;

-- Calls for the scheduler: it starts in this database when this transaction has committed.
select scylla.refresh();
