-- Notes what a worker tells of itself.
-- Parameters: $1 the worker's name, $2 meta. Changes scylla.worker.
insert into scylla.worker (name, meta) values ($1, $2)
