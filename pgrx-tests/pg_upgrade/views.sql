-- What the views show of the queues kept_*. The deadlines and ages are left out: they move with time.
\set QUIET on
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
select 'task ' || (to_jsonb(t) - 'deadline')::text from scylla.tasks t where queue ~ '^kept_' order by id;
select 'failed ' || to_jsonb(f)::text from scylla.failed f where queue ~ '^kept_' order by id;
select 'queue ' || (to_jsonb(q) - 'oldest_ready')::text from scylla.queues q where queue ~ '^kept_' order by queue;
select 'stats ' || to_jsonb(s)::text from scylla.stats s where queue ~ '^kept_' order by queue;
select 'group ' || (to_jsonb(g) - 'oldest_ready')::text from scylla.groups g where queue ~ '^kept_'
order by queue, group_key;
select 'schedule ' || to_jsonb(s)::text from scylla.schedules s where queue ~ '^kept_' order by name;
select 'database ' || to_jsonb(i)::text from scylla.incarnation i;
