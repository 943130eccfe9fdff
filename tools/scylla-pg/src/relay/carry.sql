-- Submits tasks that were not carried yet, and notes their ids, in one transaction.
-- $1 ids, $2 tasks as JSON, in order; $3 generation. Gives how many were new, and how many of these
-- were refused. A task whose id exists is no task to refuse.
with given as materialized (
    select given.id, given.task::jsonb as task, given.n
    from unnest($1::uuid[], $2::text[]) with ordinality as given (id, task, n)
    where not exists (
        select from scylla_relay.carried_$source c
        where c.generation in (0, 1, 2) and c.id = given.id
    )
), new as materialized (
    insert into scylla_relay.carried_$source (generation, id)
    select $3::smallint, given.id from given order by given.n
    on conflict do nothing
    returning id
), numbered as materialized (
    select given.id, given.task, row_number() over (order by given.n) as n
    from given join new using (id)
), submitted as materialized (
    select done.outcome, done.error, done.n
    from scylla.submit_tasks(
        coalesce((select jsonb_agg(task order by n) from numbered), '[]'), atomic => false
    ) with ordinality as done (id, outcome, error, n)
), refused as (
    insert into scylla_relay.refused (source, id, task, error)
    select '$source', numbered.id, numbered.task, submitted.error
    from submitted join numbered using (n)
    where submitted.error is not null
        and submitted.error <> format('task %s already exists', numbered.id)
    returning id
)
select (select count(*) from new), (select count(*) from refused)
