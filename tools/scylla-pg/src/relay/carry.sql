-- Submits tasks that were not carried yet, and notes their ids, in one transaction.
-- $1 ids, each once, $2 tasks as JSON, in order; $3 generation. Gives how many were new, and how many of
-- these were refused. A task whose id exists is no task to refuse.
-- Nothing is joined: planned while the tables are small, a join would be a loop within a loop.
with given as materialized (
    select given.id, given.task::jsonb as task, given.n
    from unnest($1::uuid[], $2::text[]) with ordinality as given (id, task, n)
    where (select c.id from scylla_relay.carried_$source c where c.id = given.id limit 1) is null
), noted as (
    insert into scylla_relay.carried_$source (generation, id)
    select $3::smallint, given.id from given
), new as materialized (
    select count(*) as count, array_agg(id order by n) as ids, coalesce(jsonb_agg(task order by n), '[]') as tasks
    from given
), refused as (
    insert into scylla_relay.refused (source, id, task, error)
    select '$source', new.ids[done.n], new.tasks -> (done.n - 1)::integer, done.error
    from new, scylla.submit_tasks(new.tasks, atomic => false) with ordinality as done (id, outcome, error, n)
    where done.error is not null
        and done.error <> format('task %s already exists', new.ids[done.n])
    returning id
)
select (select count from new), (select count(*) from refused)
