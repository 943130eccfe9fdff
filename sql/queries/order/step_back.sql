-- Puts first tasks behind older ones, except those whose rows are locked.
-- Parameters: $1 ids. Result: the id of each that went.
-- Reads scylla.task by primary key; changes scylla.task. Never waits for a row.
with free as (
    select t.id
    from scylla.task t
    where t.id = any ($1) and (t.ready or t.held) and not t.behind
    for no key update skip locked
)
update scylla.task t
set behind = true
where t.id = any (array(select f.id from free f))
returning t.id
