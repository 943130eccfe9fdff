-- Forgets workers that are gone: a worker that drains once a minute has passed, another one after an
-- hour.
-- Parameters: $1 the names of the workers that the board has heard of in that time, $2 since when the
--   board has listened.
-- Result: the names of the workers that drain and were forgotten.
-- Reads scylla.worker; changes it. Passes over rows that another transaction has locked.
with gone as (
    select w.name
    from scylla.worker w
    where not (w.name = any ($1))
        and greatest(w.since, $2) < pg_catalog.clock_timestamp()
            - case when w.draining then interval '1 minute' else interval '1 hour' end
    for update skip locked
), forgotten as (
    delete from scylla.worker w using gone g where w.name = g.name returning w.name, w.draining
)
select f.name from forgotten f where f.draining
