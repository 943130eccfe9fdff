-- The schema pgmq with pgmq's functions and views, as pgmq 1.13 has them. It is no part of the extension, so
-- that a dump contains it. Its functions go with the extension.
create schema pgmq;

comment on schema pgmq is 'pgmq''s functions and views, for queues of scylla';

create type pgmq.message_record as (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
);

comment on type pgmq.message_record is 'a message';

create type pgmq.queue_record as (
    queue_name varchar,
    is_partitioned boolean,
    is_unlogged boolean,
    created_at timestamptz
);

comment on type pgmq.queue_record is 'a queue';

create type pgmq.metrics_result as (
    queue_name text,
    queue_length bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages bigint,
    scrape_time timestamptz,
    queue_visible_length bigint,
    default_partition_length bigint
);

comment on type pgmq.metrics_result is 'the numbers of a queue';

create function pgmq.create(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_create($1, false, false)';

comment on function pgmq.create(text) is 'creates a queue';

create function pgmq.create_non_partitioned(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_create($1, false, false)';

comment on function pgmq.create_non_partitioned(text) is 'creates a queue';

create function pgmq.create_unlogged(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_create($1, false, true)';

comment on function pgmq.create_unlogged(text) is 'creates a queue';

create function pgmq.create_partitioned(
    queue_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    premake integer default 4
) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_create($1, true, false)';

comment on function pgmq.create_partitioned(text, text, text, integer) is 'creates a queue';

create function pgmq.drop_queue(queue_name text) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_drop($1)';

comment on function pgmq.drop_queue(text) is 'drops a queue with its messages and its archive';

create function pgmq.drop_queue(queue_name text, partitioned boolean) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_drop($1)';

comment on function pgmq.drop_queue(text, boolean) is 'drops a queue with its messages and its archive';

create function pgmq.purge_queue(queue_name text) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_purge($1)';

comment on function pgmq.purge_queue(text) is 'deletes all messages of a queue';

create function pgmq.list_queues() returns setof pgmq.queue_record
language sql volatile parallel unsafe
as 'select q.queue_name, q.is_partitioned, q.is_unlogged, q.created_at from scylla._pgmq_queues() q';

comment on function pgmq.list_queues() is 'the queues';

create function pgmq.send(queue_name text, msg jsonb) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, null, null)';

comment on function pgmq.send(text, jsonb) is 'sends a message';

create function pgmq.send(queue_name text, msg jsonb, headers jsonb) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, $3, null)';

comment on function pgmq.send(text, jsonb, jsonb) is 'sends a message with headers';

create function pgmq.send(queue_name text, msg jsonb, delay integer) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, null, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3))';

comment on function pgmq.send(text, jsonb, integer) is 'sends a message that is visible after some seconds';

create function pgmq.send(queue_name text, msg jsonb, delay timestamptz) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, null, $3)';

comment on function pgmq.send(text, jsonb, timestamptz) is 'sends a message that is visible from a time on';

create function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, $3, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $4))';

comment on function pgmq.send(text, jsonb, jsonb, integer) is 'sends a message with headers that is visible after some seconds';

create function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) returns bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send($1, $2, $3, $4)';

comment on function pgmq.send(text, jsonb, jsonb, timestamptz) is 'sends a message with headers that is visible from a time on';

create function pgmq.send_batch(queue_name text, msgs jsonb[]) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, null, null)';

comment on function pgmq.send_batch(text, jsonb[]) is 'sends messages';

create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[]) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, $3, null)';

comment on function pgmq.send_batch(text, jsonb[], jsonb[]) is 'sends messages with headers';

create function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, null, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3))';

comment on function pgmq.send_batch(text, jsonb[], integer) is 'sends messages that are visible after some seconds';

create function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, null, $3)';

comment on function pgmq.send_batch(text, jsonb[], timestamptz) is 'sends messages that are visible from a time on';

create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, $3, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $4))';

comment on function pgmq.send_batch(text, jsonb[], jsonb[], integer) is 'sends messages with headers that are visible after some seconds';

create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_send_batch($1, $2, $3, $4)';

comment on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) is 'sends messages with headers that are visible from a time on';

create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}') returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, $4, '''', 0, 0) r';

comment on function pgmq.read(text, integer, integer, jsonb) is 'reads messages, which others do not see for vt seconds';

create function pgmq.read_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100, conditional jsonb default '{}') returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, $6, '''', $4, $5) r';

comment on function pgmq.read_with_poll(text, integer, integer, integer, integer, jsonb) is 'reads messages, and waits for them';

create function pgmq.read_grouped(queue_name text, vt integer, qty integer) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped'', 0, 0) r';

comment on function pgmq.read_grouped(text, integer, integer) is 'reads messages of the first groups in their order';

create function pgmq.read_grouped_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped'', $4, $5) r';

comment on function pgmq.read_grouped_with_poll(text, integer, integer, integer, integer) is 'reads messages of the first groups in their order, and waits for them';

create function pgmq.read_grouped_rr(queue_name text, vt integer, qty integer) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped_rr'', 0, 0) r';

comment on function pgmq.read_grouped_rr(text, integer, integer) is 'reads messages of the groups in turn';

create function pgmq.read_grouped_rr_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped_rr'', $4, $5) r';

comment on function pgmq.read_grouped_rr_with_poll(text, integer, integer, integer, integer) is 'reads messages of the groups in turn, and waits for them';

create function pgmq.read_grouped_head(queue_name text, vt integer, qty integer) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped_head'', 0, 0) r';

comment on function pgmq.read_grouped_head(text, integer, integer) is 'reads the first message of each group';

create function pgmq.read_grouped_head_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_read($1, $2, $3, null, ''grouped_head'', $4, $5) r';

comment on function pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer) is 'reads the first message of each group, and waits for them';

create function pgmq.pop(queue_name text, qty integer default 1) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_pop($1, $2) r';

comment on function pgmq.pop(text, integer) is 'reads messages and deletes them';

create function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_set_vt($1, array[$2], pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3)) r';

comment on function pgmq.set_vt(text, bigint, integer) is 'makes a message visible after some seconds';

create function pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_set_vt($1, array[$2], $3) r';

comment on function pgmq.set_vt(text, bigint, timestamptz) is 'makes a message visible from a time on';

create function pgmq.set_vt(queue_name text, msg_ids bigint[], vt integer) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_set_vt($1, $2, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3)) r';

comment on function pgmq.set_vt(text, bigint[], integer) is 'makes messages visible after some seconds';

create function pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz) returns setof pgmq.message_record
language sql volatile parallel unsafe
as 'select r.* from scylla._pgmq_set_vt($1, $2, $3) r';

comment on function pgmq.set_vt(text, bigint[], timestamptz) is 'makes messages visible from a time on';

create function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_end($1, $2, false)';

comment on function pgmq.delete(text, bigint) is 'deletes a message; false: there is no such message';

create function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_end_batch($1, $2, false)';

comment on function pgmq.delete(text, bigint[]) is 'deletes messages; returns those that there were';

create function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_end($1, $2, true)';

comment on function pgmq.archive(text, bigint) is 'archives a message; false: there is no such message';

create function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language sql volatile parallel unsafe
as 'select scylla._pgmq_end_batch($1, $2, true)';

comment on function pgmq.archive(text, bigint[]) is 'archives messages; returns those that there were';

create function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language sql volatile parallel unsafe
as 'select m.* from scylla._pgmq_metrics($1) m';

comment on function pgmq.metrics(text) is 'the numbers of a queue';

create function pgmq.metrics_all() returns setof pgmq.metrics_result
language sql volatile parallel unsafe
as 'select m.* from scylla._pgmq_queues() q, scylla._pgmq_metrics(q.queue_name) m';

comment on function pgmq.metrics_all() is 'the numbers of the queues';

create function pgmq.validate_queue_name(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_validate($1)';

comment on function pgmq.validate_queue_name(text) is 'fails if a queue cannot have the name';

create function pgmq.create_fifo_index(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_validate($1)';

comment on function pgmq.create_fifo_index(text) is 'does nothing: it is there for clients that call it';

create function pgmq.create_fifo_indexes_all() returns void
language sql volatile parallel unsafe
as 'select';

comment on function pgmq.create_fifo_indexes_all() is 'does nothing: it is there for clients that call it';

create function pgmq.detach_archive(queue_name text) returns void
language sql volatile parallel unsafe
as 'select';

comment on function pgmq.detach_archive(text) is 'does nothing: it is there for clients that call it';

create function pgmq.convert_archive_partitioned(table_name text, partition_interval text default '10000', retention_interval text default '100000', leading_partition integer default 10) returns void
language sql volatile parallel unsafe
as 'select';

comment on function pgmq.convert_archive_partitioned(text, text, text, integer) is 'does nothing: it is there for clients that call it';

create function pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer default 250) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_notify($1, $2, false)';

comment on function pgmq.enable_notify_insert(text, integer) is 'sends notifications of new messages, each session one per interval';

create function pgmq.disable_notify_insert(queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_notify($1, null, false)';

comment on function pgmq.disable_notify_insert(text) is 'sends no more notifications of new messages';

create function pgmq.update_notify_insert(queue_name text, throttle_interval_ms integer) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_notify($1, $2, true)';

comment on function pgmq.update_notify_insert(text, integer) is 'changes the interval of notifications';

create function pgmq.list_notify_insert_throttles() returns table (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
language sql volatile parallel unsafe
as 'select q.queue_name, q.notify_interval, pg_catalog.to_timestamp(0) from scylla._pgmq_queues() q where q.notify_interval is not null order by q.queue_name';

comment on function pgmq.list_notify_insert_throttles() is 'the queues that send notifications';

create function pgmq.validate_routing_key(routing_key text) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_validate_topic($1, false)';

comment on function pgmq.validate_routing_key(text) is 'fails if a text is no routing key';

create function pgmq.validate_topic_pattern(pattern text) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_validate_topic($1, true)';

comment on function pgmq.validate_topic_pattern(text) is 'fails if a text is no pattern of routing keys';

create function pgmq.bind_topic(pattern text, queue_name text) returns void
language sql volatile parallel unsafe
as 'select scylla._pgmq_bind($1, $2)';

comment on function pgmq.bind_topic(text, text) is 'sends the messages of some routing keys to a queue';

create function pgmq.unbind_topic(pattern text, queue_name text) returns boolean
language sql volatile parallel unsafe
as 'select scylla._pgmq_unbind($1, $2)';

comment on function pgmq.unbind_topic(text, text) is 'ends what bind_topic has begun';

create function pgmq.test_routing(routing_key text) returns table (pattern text, queue_name text, compiled_regex text)
language sql volatile parallel unsafe
as 'select t.pattern, t.queue_name, t.compiled_regex from scylla._pgmq_topics($1, null) t order by t.pattern';

comment on function pgmq.test_routing(text) is 'the patterns that match a routing key';

create function pgmq.list_topic_bindings() returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_topics(null, null) t order by t.bound_at desc, t.pattern, t.queue_name';

comment on function pgmq.list_topic_bindings() is 'the patterns that are bound';

create function pgmq.list_topic_bindings(queue_name text) returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_topics(null, $1) t order by t.bound_at desc, t.pattern';

comment on function pgmq.list_topic_bindings(text) is 'the patterns that are bound to a queue';

create function pgmq.send_topic(routing_key text, msg jsonb) returns integer
language sql volatile parallel unsafe
as 'select pg_catalog.count(*)::integer from scylla._pgmq_send_topic($1, array[$2], null, null)';

comment on function pgmq.send_topic(text, jsonb) is 'sends a message to the queues of a routing key; returns to how many';

create function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb) returns integer
language sql volatile parallel unsafe
as 'select pg_catalog.count(*)::integer from scylla._pgmq_send_topic($1, array[$2], case when $3 is not null then array[$3] end, null)';

comment on function pgmq.send_topic(text, jsonb, jsonb) is 'sends a message with headers to the queues of a routing key; returns to how many';

create function pgmq.send_topic(routing_key text, msg jsonb, delay integer) returns integer
language sql volatile parallel unsafe
as 'select pg_catalog.count(*)::integer from scylla._pgmq_send_topic($1, array[$2], null, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3))';

comment on function pgmq.send_topic(text, jsonb, integer) is 'sends a message to the queues of a routing key, visible after some seconds; returns to how many';

create function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb, delay integer) returns integer
language sql volatile parallel unsafe
as 'select pg_catalog.count(*)::integer from scylla._pgmq_send_topic($1, array[$2], case when $3 is not null then array[$3] end, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $4))';

comment on function pgmq.send_topic(text, jsonb, jsonb, integer) is 'sends a message with headers to the queues of a routing key, visible after some seconds; returns to how many';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[]) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, null, null) t';

comment on function pgmq.send_batch_topic(text, jsonb[]) is 'sends messages to the queues of a routing key';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[]) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, $3, null) t';

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) is 'sends messages with headers to the queues of a routing key';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay integer) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, null, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $3)) t';

comment on function pgmq.send_batch_topic(text, jsonb[], integer) is 'sends messages to the queues of a routing key, visible after some seconds';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, null, $3) t';

comment on function pgmq.send_batch_topic(text, jsonb[], timestamptz) is 'sends messages to the queues of a routing key, visible from a time on';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay integer) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, $3, pg_catalog.clock_timestamp() operator(pg_catalog.+) pg_catalog.make_interval(secs => $4)) t';

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], integer) is 'sends messages with headers to the queues of a routing key, visible after some seconds';

create function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz) returns table (queue_name text, msg_id bigint)
language sql volatile parallel unsafe
as 'select t.* from scylla._pgmq_send_topic($1, $2, $3, $4) t';

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) is 'sends messages with headers to the queues of a routing key, visible from a time on';

create view pgmq.meta as
select q.queue_name::varchar as queue_name, q.is_partitioned, q.is_unlogged, q.created_at
from scylla._pgmq_queues() q;

comment on view pgmq.meta is 'the queues';

create view pgmq.topic_bindings as
select t.pattern, t.queue_name, t.bound_at, t.compiled_regex from scylla._pgmq_topics(null, null) t;

comment on view pgmq.topic_bindings is 'the patterns that are bound';

-- Default privileges are none here. Each call checks what its caller may do, and each view shows what the
-- caller may look at.
do $access$
declare
    item record;
begin
    for item in
        select distinct pg_catalog.format('%s pgmq.%I',
                case when c.relkind operator(pg_catalog.=) 'S' then 'sequence' else 'table' end, c.relname) as object,
            a.grantee::pg_catalog.regrole as grantee
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.relnamespace operator(pg_catalog.=) 'pgmq'::pg_catalog.regnamespace
            and c.relkind operator(pg_catalog.=) any ('{r,p,v,S}')
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) c.relowner
        union
        select pg_catalog.format('routine %s', p.oid::pg_catalog.regprocedure),
            a.grantee::pg_catalog.regrole
        from pg_catalog.pg_proc p
        cross join lateral pg_catalog.aclexplode(p.proacl) a
        where p.pronamespace operator(pg_catalog.=) 'pgmq'::pg_catalog.regnamespace
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) p.proowner
        union
        select 'schema pgmq', a.grantee::pg_catalog.regrole
        from pg_catalog.pg_namespace n
        cross join lateral pg_catalog.aclexplode(n.nspacl) a
        where n.nspname operator(pg_catalog.=) 'pgmq'
            and a.grantee operator(pg_catalog.<>) 0
            and a.grantee operator(pg_catalog.<>) n.nspowner
    loop
        execute pg_catalog.format('revoke all on %s from %s', item.object, item.grantee);
    end loop;
end
$access$;

revoke all on schema pgmq from public;
revoke all on all tables in schema pgmq from public;
grant usage on schema pgmq to public;
grant execute on all functions in schema pgmq to public;
grant select on pgmq.meta, pgmq.topic_bindings to public;

alter function pgmq.create(text) depends on extension scylla;
alter function pgmq.create_non_partitioned(text) depends on extension scylla;
alter function pgmq.create_unlogged(text) depends on extension scylla;
alter function pgmq.create_partitioned(text, text, text, integer) depends on extension scylla;
alter function pgmq.drop_queue(text) depends on extension scylla;
alter function pgmq.drop_queue(text, boolean) depends on extension scylla;
alter function pgmq.purge_queue(text) depends on extension scylla;
alter function pgmq.list_queues() depends on extension scylla;
alter function pgmq.send(text, jsonb) depends on extension scylla;
alter function pgmq.send(text, jsonb, jsonb) depends on extension scylla;
alter function pgmq.send(text, jsonb, integer) depends on extension scylla;
alter function pgmq.send(text, jsonb, timestamptz) depends on extension scylla;
alter function pgmq.send(text, jsonb, jsonb, integer) depends on extension scylla;
alter function pgmq.send(text, jsonb, jsonb, timestamptz) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[]) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[], jsonb[]) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[], integer) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[], timestamptz) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[], jsonb[], integer) depends on extension scylla;
alter function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) depends on extension scylla;
alter function pgmq.read(text, integer, integer, jsonb) depends on extension scylla;
alter function pgmq.read_with_poll(text, integer, integer, integer, integer, jsonb) depends on extension scylla;
alter function pgmq.read_grouped(text, integer, integer) depends on extension scylla;
alter function pgmq.read_grouped_with_poll(text, integer, integer, integer, integer) depends on extension scylla;
alter function pgmq.read_grouped_rr(text, integer, integer) depends on extension scylla;
alter function pgmq.read_grouped_rr_with_poll(text, integer, integer, integer, integer) depends on extension scylla;
alter function pgmq.read_grouped_head(text, integer, integer) depends on extension scylla;
alter function pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer) depends on extension scylla;
alter function pgmq.pop(text, integer) depends on extension scylla;
alter function pgmq.set_vt(text, bigint, integer) depends on extension scylla;
alter function pgmq.set_vt(text, bigint, timestamptz) depends on extension scylla;
alter function pgmq.set_vt(text, bigint[], integer) depends on extension scylla;
alter function pgmq.set_vt(text, bigint[], timestamptz) depends on extension scylla;
alter function pgmq.delete(text, bigint) depends on extension scylla;
alter function pgmq.delete(text, bigint[]) depends on extension scylla;
alter function pgmq.archive(text, bigint) depends on extension scylla;
alter function pgmq.archive(text, bigint[]) depends on extension scylla;
alter function pgmq.metrics(text) depends on extension scylla;
alter function pgmq.metrics_all() depends on extension scylla;
alter function pgmq.validate_queue_name(text) depends on extension scylla;
alter function pgmq.create_fifo_index(text) depends on extension scylla;
alter function pgmq.create_fifo_indexes_all() depends on extension scylla;
alter function pgmq.detach_archive(text) depends on extension scylla;
alter function pgmq.convert_archive_partitioned(text, text, text, integer) depends on extension scylla;
alter function pgmq.enable_notify_insert(text, integer) depends on extension scylla;
alter function pgmq.disable_notify_insert(text) depends on extension scylla;
alter function pgmq.update_notify_insert(text, integer) depends on extension scylla;
alter function pgmq.list_notify_insert_throttles() depends on extension scylla;
alter function pgmq.validate_routing_key(text) depends on extension scylla;
alter function pgmq.validate_topic_pattern(text) depends on extension scylla;
alter function pgmq.bind_topic(text, text) depends on extension scylla;
alter function pgmq.unbind_topic(text, text) depends on extension scylla;
alter function pgmq.test_routing(text) depends on extension scylla;
alter function pgmq.list_topic_bindings() depends on extension scylla;
alter function pgmq.list_topic_bindings(text) depends on extension scylla;
alter function pgmq.send_topic(text, jsonb) depends on extension scylla;
alter function pgmq.send_topic(text, jsonb, jsonb) depends on extension scylla;
alter function pgmq.send_topic(text, jsonb, integer) depends on extension scylla;
alter function pgmq.send_topic(text, jsonb, jsonb, integer) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[]) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[], jsonb[]) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[], integer) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[], timestamptz) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[], jsonb[], integer) depends on extension scylla;
alter function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) depends on extension scylla;
