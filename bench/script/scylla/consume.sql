-- Owns the tasks of fired messages and returns them, in one transaction; a pause of a millisecond.
with mine as materialized (select * from scylla.own_tasks('bench', 'fire', 100))
select count(*) from (select scylla.return_tasks(array_agg(id), array_agg(token)) from mine having count(*) > 0) s;
\sleep 1 ms
