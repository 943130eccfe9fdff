-- Makes tasks wait for others.
-- Parameters, arrays of one length: $1 predecessors, $2 the tasks that are to wait for them.
-- Result: of each link that is new the predecessor and the task.
-- Reads nothing; changes scylla.dependency. Locks: only what it inserts. The caller has locked the
-- predecessors' rows and marked them as followed.
insert into scylla.dependency (after, task)
select e.after, e.task from unnest($1, $2) as e (after, task)
on conflict do nothing
returning after, task
