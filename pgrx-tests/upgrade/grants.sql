-- Access that an administrator changed: an upgrade keeps it. Run after the extension was created.
revoke execute on function scylla.task_id from public;
grant execute on function scylla.task_id to upgrade_reader with grant option;
grant select on scylla.finished to upgrade_reader;
grant select (id, queue) on scylla.task to upgrade_reader;
