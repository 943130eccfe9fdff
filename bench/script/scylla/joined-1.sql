-- Returns a task and owns the next one, in one statement.
\if :begun
select o.id, o.token from scylla.return_task(:id, :token) r left join lateral scylla.own_tasks('bench', :queue) o on true \gset
\else
select id, token from scylla.own_tasks('bench', :queue) \gset
\set begun 1
\endif
