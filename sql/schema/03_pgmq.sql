-- The queues of the schema pgmq, and the functions that those of the schema call.

create table scylla.message_queue (
    queue      text        not null collate "C",
    name       text        not null collate "C",
    created    timestamptz not null default pg_catalog.clock_timestamp(),
    partitioned boolean    not null,
    unlogged   boolean     not null,
    notify_interval integer,
    constraint message_queue_pkey primary key (queue)
);

comment on table scylla.message_queue is 'the queues of the schema pgmq';
comment on column scylla.message_queue.queue is 'the queue';
comment on column scylla.message_queue.name is 'its name as it was created, in any case';
comment on column scylla.message_queue.created is 'when it was created';
comment on column scylla.message_queue.partitioned is
    'whether pgmq would keep it in partitions; here it makes no difference';
comment on column scylla.message_queue.unlogged is
    'whether pgmq would keep it in an unlogged table; here it makes no difference';
comment on column scylla.message_queue.notify_interval is
    'the shortest time between two notifications of a session, in milliseconds; null: none is sent';
comment on constraint message_queue_pkey on scylla.message_queue is 'finds a queue by its name';

-- Which routing keys send to which queue.
create table scylla.message_topic (
    pattern    text        not null collate "C",
    queue      text        not null collate "C",
    bound      timestamptz not null default pg_catalog.clock_timestamp(),
    constraint message_topic_pkey primary key (queue, pattern)
);

comment on table scylla.message_topic is
    'the patterns of routing keys whose messages queues of the schema pgmq get';
comment on column scylla.message_topic.pattern is
    'the pattern: * for one part of a key, # for any number';
comment on column scylla.message_topic.queue is 'the queue';
comment on column scylla.message_topic.bound is 'when the pattern was bound';
comment on constraint message_topic_pkey on scylla.message_topic is
    'a pattern is bound to a queue once';

select pg_catalog.pg_extension_config_dump('scylla.message_queue', '');
select pg_catalog.pg_extension_config_dump('scylla.message_topic', '');

-- needs ownership; writes
create function scylla.enable_pgmq_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_enable_pgmq_api';

comment on function scylla.enable_pgmq_api is
    'creates the schema pgmq with the functions and views of pgmq';

-- needs ownership; writes
create function scylla.disable_pgmq_api() returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_disable_pgmq_api';

comment on function scylla.disable_pgmq_api is
    'drops the schema pgmq; its queues stay, with their messages as tasks';

-- needs manage on all queues; writes as pgmq.create()
create function scylla._pgmq_create(queue_name text, partitioned boolean, unlogged boolean) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_create';

comment on function scylla._pgmq_create is 'creates a queue for pgmq.create()';

-- needs manage on all queues; writes as pgmq.drop_queue()
create function scylla._pgmq_drop(queue_name text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_drop';

comment on function scylla._pgmq_drop is 'drops a queue for pgmq.drop_queue()';

-- needs cancel on queue_name; writes as pgmq.purge_queue()
create function scylla._pgmq_purge(queue_name text) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_purge';

comment on function scylla._pgmq_purge is 'deletes all messages of a queue for pgmq.purge_queue()';

-- needs submit on queue_name; writes as pgmq.send()
create function scylla._pgmq_send(queue_name text, msg jsonb, headers jsonb, delay timestamptz)
returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_send';

comment on function scylla._pgmq_send is 'sends a message for pgmq.send(); a null delay means at once';

-- needs submit on queue_name; writes as pgmq.send_batch()
create function scylla._pgmq_send_batch(
    queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns setof bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_send_batch';

comment on function scylla._pgmq_send_batch is
    'sends messages for pgmq.send_batch(); a null delay means at once';

-- needs work on queue_name; writes as pgmq.read()
create function scylla._pgmq_read(
    queue_name text,
    vt integer,
    qty integer,
    conditional jsonb,
    grouped text,
    max_poll_seconds integer,
    poll_interval_ms integer
) returns table (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_read';

comment on function scylla._pgmq_read is 'reads messages for pgmq.read() and its kin';

-- needs work on queue_name; writes as pgmq.pop()
create function scylla._pgmq_pop(queue_name text, qty integer)
returns table (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_pop';

comment on function scylla._pgmq_pop is 'reads and deletes messages for pgmq.pop()';

-- needs work on queue_name; writes as pgmq.set_vt()
create function scylla._pgmq_set_vt(queue_name text, msg_ids bigint[], vt timestamptz)
returns table (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_set_vt';

comment on function scylla._pgmq_set_vt is
    'sets when messages are visible again for pgmq.set_vt()';

-- needs work on queue_name; writes as pgmq.delete()
create function scylla._pgmq_end(queue_name text, msg_id bigint, archive boolean) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_end';

comment on function scylla._pgmq_end is
    'deletes or archives a message for pgmq.delete() and pgmq.archive()';

-- needs work on queue_name; writes as pgmq.delete()
create function scylla._pgmq_end_batch(queue_name text, msg_ids bigint[], archive boolean)
returns setof bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_end_batch';

comment on function scylla._pgmq_end_batch is
    'deletes or archives messages for pgmq.delete() and pgmq.archive()';

-- needs look on queue_name
create function scylla._pgmq_messages(queue_name text, archived boolean)
returns table (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    archived_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
)
language c volatile parallel unsafe rows 1000 as 'MODULE_PATHNAME', 'scylla_pgmq_messages';

comment on function scylla._pgmq_messages is
    'the messages of a queue, or its archive, for the views of the schema pgmq';

-- needs nothing
create function scylla._pgmq_queues()
returns table (
    queue_name text,
    is_partitioned boolean,
    is_unlogged boolean,
    created_at timestamptz,
    notify_interval integer
)
language c volatile parallel unsafe rows 100 as 'MODULE_PATHNAME', 'scylla_pgmq_queues';

comment on function scylla._pgmq_queues is 'the queues of the schema pgmq';

-- needs look on queue_name
create function scylla._pgmq_metrics(queue_name text)
returns table (
    queue_name text,
    queue_length bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages bigint,
    scrape_time timestamptz,
    queue_visible_length bigint,
    default_partition_length bigint
)
language c volatile parallel unsafe rows 1 as 'MODULE_PATHNAME', 'scylla_pgmq_metrics';

comment on function scylla._pgmq_metrics is 'the numbers of a queue for pgmq.metrics()';

-- needs nothing
create function scylla._pgmq_validate(queue_name text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_validate';

comment on function scylla._pgmq_validate is 'fails if a queue of the schema pgmq cannot have a name';

-- needs manage on queue_name; writes as pgmq.enable_notify_insert()
create function scylla._pgmq_notify(
    queue_name text, throttle_interval_ms integer, only_enabled boolean
) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_notify';

comment on function scylla._pgmq_notify is
    'sets how often a session notifies of messages, for pgmq.enable_notify_insert(); null: never';

-- needs manage on queue_name; writes as pgmq.bind_topic()
create function scylla._pgmq_bind(pattern text, queue_name text) returns void
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_bind';

comment on function scylla._pgmq_bind is 'binds a pattern to a queue for pgmq.bind_topic()';

-- needs manage on queue_name; writes as pgmq.unbind_topic()
create function scylla._pgmq_unbind(pattern text, queue_name text) returns boolean
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_unbind';

comment on function scylla._pgmq_unbind is 'ends what bind_topic() has begun, for pgmq.unbind_topic()';

-- needs nothing
create function scylla._pgmq_topics(routing_key text, queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language c volatile parallel unsafe rows 10 as 'MODULE_PATHNAME', 'scylla_pgmq_topics';

comment on function scylla._pgmq_topics is
    'the patterns that are bound, of a routing key or of all, to a queue or to any';

-- needs nothing
create function scylla._pgmq_validate_topic(topic text, pattern boolean) returns boolean
language c immutable parallel safe as 'MODULE_PATHNAME', 'scylla_pgmq_validate_topic';

comment on function scylla._pgmq_validate_topic is
    'fails if a text is no routing key, or no pattern of routing keys';

-- needs submit on a queue; writes as pgmq.send_topic()
create function scylla._pgmq_send_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns table (queue_name text, msg_id bigint)
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_pgmq_send_topic';

comment on function scylla._pgmq_send_topic is
    'sends messages to the queues of a routing key for pgmq.send_topic()';

-- needs ownership; writes
create function scylla.import_pgmq_queue(
    name text, max_messages bigint default null, archive boolean default false
) returns bigint
language c volatile parallel unsafe as 'MODULE_PATHNAME', 'scylla_import_pgmq_queue';

comment on function scylla.import_pgmq_queue is
    'moves the messages of a queue of pgmq to a queue of scylla; returns how many';
