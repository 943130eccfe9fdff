-- Removes what enable.sql makes, and the views of the queues. Fails when the schema has anything else, or is
-- pgmq's.
do $views$
declare
    item record;
begin
    for item in
        select 'q_' operator(pg_catalog.||) q.queue as live, 'a_' operator(pg_catalog.||) q.queue as archive
        from scylla.message_queue q
    loop
        execute pg_catalog.format('drop view if exists pgmq.%I, pgmq.%I', item.live, item.archive);
    end loop;
end
$views$;

drop view pgmq.meta, pgmq.topic_bindings;
drop function
    pgmq.create(text),
    pgmq.create_non_partitioned(text),
    pgmq.create_unlogged(text),
    pgmq.create_partitioned(text, text, text, integer),
    pgmq.drop_queue(text),
    pgmq.drop_queue(text, boolean),
    pgmq.purge_queue(text),
    pgmq.list_queues(),
    pgmq.send(text, jsonb),
    pgmq.send(text, jsonb, jsonb),
    pgmq.send(text, jsonb, integer),
    pgmq.send(text, jsonb, timestamptz),
    pgmq.send(text, jsonb, jsonb, integer),
    pgmq.send(text, jsonb, jsonb, timestamptz),
    pgmq.send_batch(text, jsonb[]),
    pgmq.send_batch(text, jsonb[], jsonb[]),
    pgmq.send_batch(text, jsonb[], integer),
    pgmq.send_batch(text, jsonb[], timestamptz),
    pgmq.send_batch(text, jsonb[], jsonb[], integer),
    pgmq.send_batch(text, jsonb[], jsonb[], timestamptz),
    pgmq.read(text, integer, integer, jsonb),
    pgmq.read_with_poll(text, integer, integer, integer, integer, jsonb),
    pgmq.read_grouped(text, integer, integer),
    pgmq.read_grouped_with_poll(text, integer, integer, integer, integer),
    pgmq.read_grouped_rr(text, integer, integer),
    pgmq.read_grouped_rr_with_poll(text, integer, integer, integer, integer),
    pgmq.read_grouped_head(text, integer, integer),
    pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer),
    pgmq.pop(text, integer),
    pgmq.set_vt(text, bigint, integer),
    pgmq.set_vt(text, bigint, timestamptz),
    pgmq.set_vt(text, bigint[], integer),
    pgmq.set_vt(text, bigint[], timestamptz),
    pgmq.delete(text, bigint),
    pgmq.delete(text, bigint[]),
    pgmq.archive(text, bigint),
    pgmq.archive(text, bigint[]),
    pgmq.metrics(text),
    pgmq.metrics_all(),
    pgmq.validate_queue_name(text),
    pgmq.create_fifo_index(text),
    pgmq.create_fifo_indexes_all(),
    pgmq.detach_archive(text),
    pgmq.convert_archive_partitioned(text, text, text, integer),
    pgmq.enable_notify_insert(text, integer),
    pgmq.disable_notify_insert(text),
    pgmq.update_notify_insert(text, integer),
    pgmq.list_notify_insert_throttles(),
    pgmq.validate_routing_key(text),
    pgmq.validate_topic_pattern(text),
    pgmq.bind_topic(text, text),
    pgmq.unbind_topic(text, text),
    pgmq.test_routing(text),
    pgmq.list_topic_bindings(),
    pgmq.list_topic_bindings(text),
    pgmq.send_topic(text, jsonb),
    pgmq.send_topic(text, jsonb, jsonb),
    pgmq.send_topic(text, jsonb, integer),
    pgmq.send_topic(text, jsonb, jsonb, integer),
    pgmq.send_batch_topic(text, jsonb[]),
    pgmq.send_batch_topic(text, jsonb[], jsonb[]),
    pgmq.send_batch_topic(text, jsonb[], integer),
    pgmq.send_batch_topic(text, jsonb[], timestamptz),
    pgmq.send_batch_topic(text, jsonb[], jsonb[], integer),
    pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz);
drop type pgmq.message_record, pgmq.queue_record, pgmq.metrics_result;
drop schema pgmq
