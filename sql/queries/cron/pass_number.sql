-- Has later schedules get greater numbers than one.
-- Parameter: $1 the number.
-- Changes the sequence of scylla.schedule.
select pg_catalog.setval('scylla.schedule_id_seq', greatest(q.last_value, $1))
from scylla.schedule_id_seq q
