-- A worker of the flooded queue owns what it gets, and returns it.
select count(scylla.return_task(o.id, o.token)) from scylla.own_tasks('bench', 'flood') o;
