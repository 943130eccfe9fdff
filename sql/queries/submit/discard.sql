-- Takes back tasks that were just inserted under the id of a settled one.
-- Parameters: $1 ids. Changes scylla.task; locks only rows of this transaction.
delete from scylla.task t where t.id = any ($1)
