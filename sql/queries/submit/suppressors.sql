-- What may keep a row from being inserted without an error: triggers that fire before, and rules.
-- No parameters. Result: one text that names them; null: there is nothing of the kind.
-- Reads the catalog; changes and locks nothing.
select pg_catalog.string_agg(s.what, ', ' order by s.what)
from (
    select pg_catalog.format('trigger "%s"', t.tgname) as what
    from pg_catalog.pg_trigger t
    where t.tgrelid = 'scylla.task'::pg_catalog.regclass
        and not t.tgisinternal
        and t.tgenabled <> 'D'
        -- each row, before, insert
        and t.tgtype & 7 = 7
    union all
    select pg_catalog.format('rule "%s"', r.rulename)
    from pg_catalog.pg_rewrite r
    where r.ev_class = 'scylla.task'::pg_catalog.regclass
        and r.ev_enabled <> 'D'
        and r.ev_type = '3'
) s
