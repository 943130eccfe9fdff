-- What a health check asks the tables and the server.
-- Parameters: $1 now.
-- Result: how long the oldest task is due that has not fired, null: none is; the oldest transaction whose
--   rows are kept, by its age in transactions, and what keeps it.
-- Reads scylla.task through the index task_due, one row, and PostgreSQL's views; changes and locks nothing.
with holder as (
    select age(a.backend_xmin)::bigint as age, format('process %s', a.pid) as who
    from pg_stat_activity a
    where a.backend_xmin is not null and a.pid <> pg_backend_pid()
    union all
    select age(s.xmin)::bigint, format('replication slot %I', s.slot_name)
    from pg_replication_slots s
    where s.xmin is not null
    union all
    select age(p.transaction)::bigint, format('prepared transaction %L', p.gid)
    from pg_prepared_xacts p
)
select (
        select $1 - t.due from scylla.task t where t.due is not null and t.due <= $1
        order by t.due, t.id limit 1
    ), h.age, h.who
from (values (1)) as one (n)
left join (select h.age, h.who from holder h order by h.age desc limit 1) h on true
