-- Owns a task, if one may run, and returns it, each in a transaction of its own.
select coalesce((array_agg(id))[1], gen_random_uuid()) as id, (array_agg(token))[1] as token, count(*) as found
from scylla.own_tasks('bench', :queue) \gset
\if :found
select scylla.return_task(:id, :token);
\endif
