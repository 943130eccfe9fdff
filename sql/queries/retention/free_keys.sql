-- Frees keys whose time is over.
-- Parameters: $1 now, $2 how many at most. Result: how many.
-- Reads scylla.kept_key through the index kept_key_until; changes it. Locks its rows, waiting for none.
with past as materialized (
    select k.ctid
    from scylla.kept_key k
    where k.until <= $1
    order by k.until
    limit $2
    for update skip locked
), gone as (
    delete from scylla.kept_key k where k.ctid = any (array(select p.ctid from past p)) returning 1
)
select pg_catalog.count(*) from gone
