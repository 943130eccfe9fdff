-- Submits one task with a spec of :bytes bytes.
select scylla.submit(:queue, spec) from reference.spec where bytes = :bytes;
