-- Arrays have a limit: 100,000 elements, 1,024 actions (I8). One more is refused with 54000, before
-- anything else is looked at.
\set VERBOSITY sqlstate
\pset tuples_only on
\pset format unaligned
create temp table many as
select array_fill('00000000-0000-4000-8000-000000000001'::uuid, array[100000]) as ids,
    array_fill('00000000-0000-4000-8000-000000000001'::uuid, array[100001]) as more,
    array_fill('{}'::jsonb, array[100001]) as objects,
    to_jsonb(array_fill(0, array[100001])) as elements;
-- out of line and compressed, too
create temp table stored as select * from many;

select scylla.submit('limits', after => more) is null from stored;
select count(*) from stored, scylla.submit_tasks(elements);
select count(*) from stored, scylla.submit_tasks(elements, atomic => false);
select count(*) from stored, scylla.submit_tasks(
    jsonb_build_array(jsonb_build_object('queue', 'limits', 'after', elements)));
select outcome, error from stored, scylla.submit_tasks(
    jsonb_build_array(jsonb_build_object('queue', 'limits', 'after', elements)), atomic => false);
select cardinality(scylla.extend_tasks(more, ids)) from stored;
select cardinality(scylla.extend_tasks(ids, more)) from stored;
select cardinality(scylla.return_tasks(more, ids)) from stored;
select cardinality(scylla.return_tasks(ids, more)) from stored;
select cardinality(scylla.return_tasks(ids[1:1], ids[1:1], results => objects)) from stored;
select cardinality(scylla.return_tasks(ids[1:1], ids[1:1], 'aborted', errors => objects)) from stored;
select cardinality(scylla.cancel_tasks(more)) from stored;
select scylla.delete_tasks(more) from stored;
select scylla.add_dependencies(more, ids) from stored;
select scylla.add_dependencies(ids, more) from stored;
select count(*) from stored, scylla.delay_messages('limits', elements);
select count(*) from scylla.own_tasks('w', 'limits', actions => array_fill('a'::text, array[1025]));
-- of null elements, and of two dimensions
select cardinality(scylla.cancel_tasks(array_fill(null::uuid, array[100001])));
select cardinality(scylla.cancel_tasks(
    array_fill('00000000-0000-4000-8000-000000000001'::uuid, array[400, 400])));
-- whose length another array does not have
select cardinality(scylla.extend_tasks(more, ids[1:1])) from stored;
-- built up by PL/pgSQL, which keeps an array in another form
do $$
declare a uuid[] := array_fill('00000000-0000-4000-8000-000000000001'::uuid, array[100000]);
begin
    a[100001] := a[1];
    perform scylla.cancel_tasks(a);
end$$;

-- As many as there may be.
select cardinality(scylla.cancel_tasks(ids)) from stored;
select cardinality(scylla.extend_tasks(ids, ids)) from stored;
select count(*) from scylla.own_tasks('w', 'limits', actions => array_fill('a'::text, array[1024]));
select count(*) from scylla.own_tasks('w', 'limits', 2147483647);
