-- What the catalogs know of the extension, a line for each fact, without oids: two databases with the
-- same version of the extension print the same, whether it was created or upgraded there. The option
-- pg_attver of a column is PostgreSQL's own count of changes.
\set QUIET on
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
set search_path = pg_catalog;

create function pg_temp.access(acl aclitem[], kind "char", owner oid) returns text
language sql return (
    select string_agg(format('%s=%s%s', case grantee when 0 then 'public' else grantee::regrole::text end,
        privilege_type, case when is_grantable then '*' end), ' ' order by grantee::regrole::text, privilege_type)
    from aclexplode(coalesce(acl, acldefault(kind, owner)))
);

create temporary view member as
select classid, objid from pg_depend
where refclassid = 'pg_extension'::regclass and deptype = 'e'
    and refobjid = (select oid from pg_extension where extname = 'scylla');

create temporary view relation as
select c.*, c.oid::regclass::text as name from pg_class c
where c.oid in (select objid from member where classid = 'pg_class'::regclass);

select fact from (
    select format('extension %s %s schema=%s relocatable=%s', extname, extversion, extnamespace::regnamespace,
        extrelocatable) from pg_extension where extname = 'scylla'
    union all
    select 'member ' || pg_describe_object(classid, objid, 0) from member
    union all
    select format('config %s where %s', t::regclass, condition)
    from pg_extension, unnest(extconfig, extcondition) as c (t, condition) where extname = 'scylla'
    union all
    select format('relation %s kind=%s persistence=%s identity=%s security=%s%s options=%s toast=%s access=%s comment=%s',
        name, relkind, relpersistence, relreplident, relrowsecurity, relforcerowsecurity, reloptions,
        (select t.reloptions from pg_class t where t.oid = r.reltoastrelid),
        pg_temp.access(relacl, (case relkind when 'S' then 's' else 'r' end)::"char", relowner),
        obj_description(oid, 'pg_class'))
    from relation r
    union all
    select format('column %s.%s number=%s dropped=%s type=%s collation=%s notnull=%s default=%s identity=%s generated=%s storage=%s compression=%s target=%s options=%s access=%s comment=%s',
        name, attname, attnum, attisdropped, format_type(atttypid, atttypmod), attcollation::regcollation,
        attnotnull, pg_get_expr(adbin, adrelid), attidentity, attgenerated, attstorage, attcompression,
        attstattarget, (select array_agg(o) from unnest(attoptions) o where o !~ '^pg_attver='), pg_temp.access(attacl, 'c', relowner),
        col_description(r.oid, attnum))
    from relation r join pg_attribute on attrelid = r.oid and attnum > 0
        left join pg_attrdef on (adrelid, adnum) = (attrelid, attnum)
    union all
    select format('constraint %s on %s: %s comment=%s', conname, conrelid::regclass, pg_get_constraintdef(c.oid),
        obj_description(c.oid, 'pg_constraint'))
    from pg_constraint c where conrelid in (select oid from relation)
    union all
    select format('index %s valid=%s options=%s comment=%s', pg_get_indexdef(indexrelid), indisvalid, reloptions,
        obj_description(indexrelid, 'pg_class'))
    from pg_index join pg_class c on c.oid = indexrelid where indrelid in (select oid from relation)
    union all
    select format('view %s: %s', name, pg_get_viewdef(oid)) from relation where relkind = 'v'
    union all
    select format('sequence %s: %s', name, (select to_jsonb(s) - 'seqrelid' from pg_sequence s where seqrelid = oid))
    from relation where relkind = 'S'
    union all
    select format('function %s owner=%s access=%s comment=%s support=%s: %s', p.oid::regprocedure, proowner::regrole,
        pg_temp.access(proacl, 'f', proowner), obj_description(p.oid, 'pg_proc'), prosupport,
        pg_get_functiondef(p.oid))
    from pg_proc p where oid in (select objid from member where classid = 'pg_proc'::regclass)
    union all
    select format('type %s access=%s comment=%s: %s', t.oid::regtype, pg_temp.access(typacl, 'T', typowner),
        obj_description(t.oid, 'pg_type'),
        to_jsonb(t) - '{oid,typnamespace,typowner,typrelid,typsubscript,typarray,typbasetype,typelem,typacl}'::text[])
    from pg_type t where oid in (select objid from member where classid = 'pg_type'::regclass)
    union all
    select format('cast %s by %s context=%s method=%s', pg_describe_object('pg_cast'::regclass, oid, 0), castfunc::regprocedure,
        castcontext, castmethod)
    from pg_cast where oid in (select objid from member where classid = 'pg_cast'::regclass)
    union all
    select format('trigger %s', pg_get_triggerdef(oid)) from pg_trigger
    where tgrelid in (select oid from relation) and not tgisinternal
    union all
    select format('rule %s', pg_get_ruledef(r.oid)) from pg_rewrite r
    where ev_class in (select oid from relation where relkind <> 'v')
    union all
    select format('policy %s on %s: %s', polname, polrelid::regclass, pg_get_expr(polqual, polrelid)) from pg_policy
    where polrelid in (select oid from relation)
    union all
    select format('first access of %s: %s', pg_describe_object(classoid, objoid, objsubid),
        (select string_agg(item::text, ' ' order by item::text) from unnest(initprivs) as item))
    from pg_init_privs where (classoid, objoid) in (select classid, objid from member)
    union all
    select format('first access of schema %s: %s', nspname,
        (select string_agg(item::text, ' ' order by item::text) from pg_init_privs i, unnest(initprivs) as item
         where i.objoid = n.oid and i.classoid = 'pg_namespace'::regclass))
    from pg_namespace n where nspname = 'scylla'
    union all
    select format('schema %s access=%s comment=%s', nspname, pg_temp.access(nspacl, 'n', nspowner),
        obj_description(oid, 'pg_namespace'))
    from pg_namespace where nspname = 'scylla'
) facts (fact)
order by fact collate "C";
