-- The patterns that are bound.
-- Parameters: $1 a routing key that they match, or null; $2 the queue, or null.
-- Result: queue, its name, pattern, when it was bound, the regular expression.
-- Reads scylla.message_topic and scylla.message_queue; changes and locks nothing.
select x.queue, q.name, x.pattern, x.bound, x.regex
from (
    select t.*,
        '^' || pg_catalog.replace(pg_catalog.replace(
            pg_catalog.regexp_replace(t.pattern, '([.+?{}()|\[\]\\^$])', '\\\1', 'g'),
            '*', '[^.]+'), '#', '.*') || '$' as regex
    from scylla.message_topic t
    where $2 is null or t.queue = $2
) x
join scylla.message_queue q on q.queue = x.queue
where $1 is null or $1 ~ x.regex
order by x.queue, x.bound desc, x.pattern
