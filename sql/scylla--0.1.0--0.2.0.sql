\echo Use "ALTER EXTENSION scylla UPDATE" to load this file. \quit
-- From 0.1.0 to 0.2.0.

-- The keys of the runs of SQL commands have a space of their own.
drop index scylla.task_key;
create unique index task_key on scylla.task
    (key, queue, (schedule is not null and command is not null))
where key is not null;
comment on index scylla.task_key is
    'one live task a queue and key, apart from the runs of SQL commands';

select scylla.refresh();
