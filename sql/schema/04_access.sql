-- Closed to everybody but the owner until somebody is let in.
revoke all on all routines in schema scylla from public;
revoke all on all tables in schema scylla from public;

-- Calls for the clock: it comes to this database when the extension's creation has committed.
select scylla.refresh();
