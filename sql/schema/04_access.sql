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
