-- The commands that make the missing partitions of scylla.finished: one a day, in UTC, from
-- yesterday to three days ahead. Not made: a day of which all tasks would be past, and a day of
-- which the default partition has tasks already. Each partition has an index and a replica identity
-- of its own, and comments.
-- Parameters: $1 the time up to which settled tasks are past. Result: of each its name, and a text
--   of five commands.
-- Reads the catalog and scylla.finished_default; changes and locks nothing.
select d.name, pg_catalog.format(
    'create table scylla.%1$I partition of scylla.finished for values from (%2$L) to (%3$L);'
    'alter table scylla.%1$I replica identity full;'
    'create index %4$I on scylla.%1$I (id);'
    'comment on table scylla.%1$I is %5$L;'
    'comment on index scylla.%4$I is ''finds a settled task by its id''',
    d.name, d.day at time zone 'UTC', (d.day + interval '1 day') at time zone 'UTC', d.name || '_id',
    'tasks settled on ' || pg_catalog.to_char(d.day, 'YYYY-MM-DD') || ' (UTC)')
from (
    select g.day, 'finished_' || pg_catalog.to_char(g.day, 'YYYYMMDD') as name
    from pg_catalog.generate_series(-1, 3) as n,
        lateral (
            select pg_catalog.date_trunc('day', pg_catalog.now() at time zone 'UTC')
                + n * interval '1 day' as day
        ) g
) d
where pg_catalog.to_regclass('scylla.' || d.name) is null
    and (d.day + interval '1 day') at time zone 'UTC' > $1
    and not exists (
        select
        from scylla.finished_default f
        where f.updated >= d.day at time zone 'UTC'
            and f.updated < (d.day + interval '1 day') at time zone 'UTC'
    )
order by d.day
