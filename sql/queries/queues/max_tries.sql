-- How many tries the tasks of a queue get that have no number of their own.
-- Parameters: $1 queue. Result: the number, 0: no limit; null or no row: the server's.
-- Reads scylla.queue by primary key; changes and locks nothing.
select q.max_tries from scylla.queue q where q.queue = $1
