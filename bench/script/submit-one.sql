-- Submits one task.
select scylla.submit('bench');
