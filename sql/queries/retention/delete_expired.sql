-- Deletes settled tasks that are past, among some blocks of one partition. The caller replaces the
-- name of the default partition by that one's.
-- Parameters: $1 the time up to which tasks are past; arrays of one length: $2 queues that have a
--   time of their own, $3 these times; $4 the first block, $5 the block behind the last; $6 how
--   many at most.
-- Result: how many went, and the block of the last one.
-- Reads and changes the partition. Locks what it deletes, passing over rows that are locked (I10).
with past as materialized (
    select f.ctid
    from scylla.finished_default f
    left join unnest($2, $3) as own (queue, until) on own.queue = f.queue
    where f.ctid >= pg_catalog.format('(%s,0)', $4)::pg_catalog.tid
        and f.ctid < pg_catalog.format('(%s,0)', $5)::pg_catalog.tid
        and f.updated <= coalesce(own.until, $1)
    limit $6
    for update of f skip locked
), gone as (
    delete from scylla.finished_default f
    where f.ctid = any (array(select p.ctid from past p))
    returning f.ctid
)
select pg_catalog.count(*), pg_catalog.max((g.ctid::pg_catalog.text::pg_catalog.point)[0])::pg_catalog.int8
from gone g
