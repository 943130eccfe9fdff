-- Closed to all roles but the owner, until the owner grants rights.
revoke all on all routines in schema scylla from public;
revoke all on all tables in schema scylla from public;
revoke all on all sequences in schema scylla from public;

-- Calls for the scheduler: it starts in this database when this transaction has committed.
select scylla.refresh();
