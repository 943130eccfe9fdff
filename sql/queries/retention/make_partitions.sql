-- The commands that make the missing partitions of scylla.finished: one a day, in UTC, from
-- yesterday to three days ahead. Not made: a day of which all tasks would be past, and a day of
-- which the default partition has tasks already. Each partition has indexes, a replica identity and
-- comments of its own, as the default partition has.
-- Parameters: $1 the time up to which settled tasks are past. Result: of each its name, and a text
--   of commands.
-- Reads the catalog and scylla.finished_default; changes and locks nothing.
select d.name, pg_catalog.format(
    'create table scylla.%1$I partition of scylla.finished for values from (%2$L) to (%3$L);'
    'alter table scylla.%1$I replica identity full;'
    'comment on table scylla.%1$I is %4$L;',
    d.name, d.day at time zone 'UTC', (d.day + interval '1 day') at time zone 'UTC',
    'tasks settled on ' || pg_catalog.to_char(d.day, 'YYYY-MM-DD') || ' (UTC)')
    || (
        select pg_catalog.string_agg(
            pg_catalog.format(
                'create index %1$I on scylla.%2$I %3$s; comment on index scylla.%1$I is %4$L;',
                d.name || '_' || i.name, d.name, i.definition, i.comment),
            '')
        from (values
            ('id', '(id)', 'finds a settled task by its id'),
            ('queue', '(queue, updated)', 'finds settled tasks by queue and time'),
            ('key', '(key) where key is not null', 'finds settled tasks by their key'),
            ('status', '(status, updated) where status operator(pg_catalog.<>) ''completed''',
                'finds aborted and cancelled tasks by time'),
            ('failed', '(queue, status, updated) where status operator(pg_catalog.<>) ''completed''',
                'finds a queue''s aborted and cancelled tasks by time')
        ) i (name, definition, comment)
    )
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
