-- The best ready SQL command of each role but some.
-- Parameters: $1 the roles to leave out, $2 the tasks to leave out, which run already, $3 a role.
-- Result: the id of each, by priority; among equals, roles behind $3 come first.
-- Reads scylla.task through the index task_command, one step for each role; changes and locks
-- nothing.
with recursive roles (role) as (
    (
        select t.role::oid from scylla.task t
        where t.ready and t.command is not null
        order by t.role::oid
        limit 1
    )
    union all
    select (
        select t.role::oid from scylla.task t
        where t.ready and t.command is not null and t.role::oid > r.role
        order by t.role::oid
        limit 1
    )
    from roles r
    where r.role is not null
)
select best.id
from roles r
cross join lateral (
    select t.id, t.priority from scylla.task t
    where t.ready and t.command is not null and t.role::oid = r.role and t.id <> all ($2)
    order by t.role::oid, (- t.priority), t.created, t.id
    limit 1
) best
where r.role <> all ($1)
order by best.priority desc, r.role <= $3, r.role
