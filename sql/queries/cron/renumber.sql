-- Gives a new job the number that it had in pg_cron, and the name of that number. Numbers that are given
-- later are greater.
-- Parameters: $1 its number, $2 the other one.
-- Changes scylla.schedule by primary key, and its sequence.
with renumbered as (
    update scylla.schedule s
    set id = $2, name = 'cron:' operator(pg_catalog.||) $2::pg_catalog.text
    where s.id operator(pg_catalog.=) $1
    returning s.id
)
select pg_catalog.setval('scylla.schedule_id_seq', greatest(q.last_value, r.id))
from renumbered r, scylla.schedule_id_seq q
