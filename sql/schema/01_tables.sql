comment on schema scylla is 'tasks, queues and schedules, and the functions that work with them';

-- The tables are the truth: the tasks in them exist, whatever the board in shared memory says (I1).
-- Only the owner writes them; other roles call functions.

-- A role. Stored by its oid, so that a renamed role stays the same; written and read by its name, so that
-- a dump means the role of that name. A missing one is read as no role: it must not fail the restore.
create type scylla.role;

-- needs nothing
create function scylla._role_in(cstring) returns scylla.role
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_role_in';

comment on function scylla._role_in is 'reads a role by its name; a missing one is no role';

-- needs nothing
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

-- needs nothing
create function scylla._may_act_as(role scylla.role) returns boolean
language c stable parallel safe as 'MODULE_PATHNAME', 'scylla_may_act_as';

comment on function scylla._may_act_as is
    'whether the caller may have commands run with the rights of a role';

-- A database, as scylla.role has a role.
create type scylla.database;

-- needs nothing
create function scylla._database_in(cstring) returns scylla.database
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_in';

comment on function scylla._database_in is 'reads a database by its name; a missing one is no database';

-- needs nothing
create function scylla._database_out(scylla.database) returns cstring
language c stable strict parallel safe as 'MODULE_PATHNAME', 'scylla_database_out';

comment on function scylla._database_out is 'writes the name of a database';

create type scylla.database (
    input = scylla._database_in,
    output = scylla._database_out,
    like = pg_catalog.oid
);

comment on type scylla.database is 'a database, stored by oid and dumped by name';

create cast (scylla.database as pg_catalog.oid) without function as assignment;
create cast (pg_catalog.oid as scylla.database) without function as assignment;

comment on cast (scylla.database as pg_catalog.oid) is 'the oid of a database';
comment on cast (pg_catalog.oid as scylla.database) is 'the database of an oid';

-- needs nothing
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
    behind     boolean     not null default false,
    database_oid scylla.database,
    meta       jsonb,
    constraint task_pkey primary key (id),
    -- A role that may write all tables (pg_write_all_data) has no command run as another role.
    constraint task_role check (
        command is null or scylla._may_act_as(role))
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
where ready and not behind and group_key is null;

-- As task_lane, of the lanes of groups, whatever else the queue has.
create index task_group_lane on scylla.task
    (queue, action, scylla._group_hash(group_key), (operator(pg_catalog.-) priority), created, id)
where ready and not behind and group_key is not null;

-- The oldest task of all groups.
create index task_group_age on scylla.task (queue, created, id)
where ready and group_key is not null;

-- A well-known name, and a waiting message's id, are one task's within the queue. The runs of SQL
-- commands have a space of their own: a name that another role chose keeps none of them from running.
create unique index task_key on scylla.task
    (key, queue, (schedule is not null and command is not null))
where key is not null;
create unique index task_message on scylla.task (queue, message) where message is not null;

-- The tasks of a group that were ready once, in the order of submission: the first, and those behind
-- it. No group's key is empty: it means the tasks without a group, of which task_lane has the
-- first if it is ready.
create index task_first on scylla.task
    (queue, scylla._group_hash(coalesce(group_key, '')), created, id)
where (ready or held) and not behind and (group_key is not null or held);
create index task_behind on scylla.task
    (queue, scylla._group_hash(coalesce(group_key, '')), created, id)
where behind;

-- The other tasks of a group.
create index task_group on scylla.task (queue, scylla._group_hash(group_key))
where not (ready or held) and group_key is not null;

-- The SQL commands of each role, in their order.
create index task_command on scylla.task
    ((role::pg_catalog.oid), (operator(pg_catalog.-) priority), created, id)
where ready and command is not null;

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
comment on column scylla.task.behind is
    'in a queue with max_running_per_group 1: an older task of its group runs first';
comment on column scylla.task.database_oid is
    'which database had that name when it was given; null: this one';
comment on column scylla.task.meta is 'what a client noted about the task; null: nothing';
comment on constraint task_pkey on scylla.task is 'finds a task by its id';
comment on index scylla.task_lane is 'the ready order of each lane, from where a refill reads';
comment on index scylla.task_group_lane is
    'the ready order of each group''s lane, from where a refill reads';
comment on index scylla.task_group_age is 'ready tasks of groups, oldest first';
comment on index scylla.task_key is
    'one live task a queue and key, apart from the runs of SQL commands';
comment on index scylla.task_first is
    'the tasks of a group that were ready once and are behind none, in the order of submission';
comment on index scylla.task_behind is
    'the tasks that an older one of their group runs before, in the order of submission';
comment on index scylla.task_group is 'the tasks of a group that were never ready';
comment on index scylla.task_message is 'one waiting message a queue and id';
comment on index scylla.task_command is 'the ready SQL commands of each role, the best first';
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
    history    jsonb       not null,
    database_oid scylla.database,
    resubmitted_as uuid,
    meta       jsonb,
    -- As task_role: what is resubmitted runs.
    constraint finished_role check (command is null or scylla._may_act_as(role))
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
    'settled tasks, by the time they were settled';
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
comment on column scylla.finished.database_oid is
    'which database had that name when it was given; null: this one';
comment on constraint finished_role on scylla.finished is
    'commands ran as a role whose rights the writing role has';
comment on column scylla.finished.resubmitted_as is
    'the task that repeats this one, the latest of several; null: none does';
comment on column scylla.finished.meta is 'what a client noted about the task; null: nothing';
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

-- Workers that told something of themselves, or are asked to stop.
create table scylla.worker (
    name       text        not null collate "C",
    meta       jsonb       not null default '{}',
    draining   boolean     not null default false,
    since      timestamptz not null default pg_catalog.clock_timestamp(),
    constraint worker_pkey primary key (name)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

comment on table scylla.worker is
    'workers that told something of themselves or are asked to stop; a row goes after its worker';
comment on column scylla.worker.name is 'the worker''s name';
comment on column scylla.worker.meta is 'what it told of itself';
comment on column scylla.worker.draining is 'whether it is asked to stop, and owns nothing more';
comment on column scylla.worker.since is 'when it registered, or was asked to stop';
comment on constraint worker_pkey on scylla.worker is 'finds a worker by its name';

-- Keys that stay taken for a time after their submission, whether or not the tasks have settled.
create table scylla.kept_key (
    queue      text        not null collate "C",
    key        text        not null collate "C",
    task       uuid        not null,
    until      timestamptz not null,
    constraint kept_key_pkey primary key (queue, key)
);

create index kept_key_until on scylla.kept_key (until);

comment on table scylla.kept_key is
    'keys of tasks that were submitted with unique_for; a row goes when its time is over';
comment on column scylla.kept_key.queue is 'the queue';
comment on column scylla.kept_key.key is 'the key';
comment on column scylla.kept_key.task is 'the task that was submitted with it';
comment on column scylla.kept_key.until is 'until when no other task of the queue may have it';
comment on constraint kept_key_pkey on scylla.kept_key is 'a key is kept for one task';
comment on index scylla.kept_key_until is 'the keys whose time is over';

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

-- needs nothing
create function scylla._note_identity() returns trigger
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_note_identity';

comment on function scylla._note_identity is 'closes a database that was copied or restored, from the commit on';

create trigger note_identity after insert or update or delete on scylla.incarnation
for each statement execute function scylla._note_identity();

comment on trigger note_identity on scylla.incarnation is 'a restored row closes the database';

select pg_catalog.pg_extension_config_dump('scylla.task', '');
select pg_catalog.pg_extension_config_dump('scylla.dependency', '');
select pg_catalog.pg_extension_config_dump('scylla.countdown', '');
select pg_catalog.pg_extension_config_dump('scylla.finished', '');
select pg_catalog.pg_extension_config_dump('scylla.finished_default', '');
select pg_catalog.pg_extension_config_dump('scylla.queue', '');
select pg_catalog.pg_extension_config_dump('scylla.kept_key', '');
select pg_catalog.pg_extension_config_dump('scylla.privilege', '');
select pg_catalog.pg_extension_config_dump('scylla.worker_number', '');
select pg_catalog.pg_extension_config_dump('scylla.created_until', '');
select pg_catalog.pg_extension_config_dump('scylla.incarnation', '');
