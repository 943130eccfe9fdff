-- The commands that give partitions the privileges of scylla.finished: they have been created with
-- the default privileges of their owner.
-- Parameters: $1 scylla.finished, $2 the names of partitions. Result: a text of commands for each
--   partition whose privileges differ.
-- Reads the catalog; changes and locks nothing.
with list as (
    select r.oid, g.grantee, g.privilege_type, pg_catalog.bool_or(g.is_grantable) as is_grantable,
        case g.grantee when 0 then 'public' else g.grantee::pg_catalog.regrole::pg_catalog.text end
            as role
    from pg_catalog.pg_class r
    cross join lateral pg_catalog.aclexplode(
        coalesce(r.relacl, pg_catalog.acldefault('r', r.relowner))) g
    where r.oid = $1
        or r.oid in (select i.inhrelid from pg_catalog.pg_inherits i where i.inhparent = $1)
    group by r.oid, g.grantee, g.privilege_type
), partition as (
    select c.oid, c.oid::pg_catalog.regclass as name
    from pg_catalog.pg_inherits i
    join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = $1 and c.relname = any ($2)
)
select
    (select coalesce(pg_catalog.string_agg(
            pg_catalog.format('revoke all on table %s from %s;', p.name, has.role), ''), '')
        from (select distinct l.role from list l where l.oid = p.oid) has)
    || (select coalesce(pg_catalog.string_agg(
            pg_catalog.format('grant %s on table %s to %s%s;', l.privilege_type, p.name, l.role,
                case when l.is_grantable then ' with grant option' end), ''), '')
        from list l where l.oid = $1)
from partition p
where exists (
    (select l.grantee, l.privilege_type, l.is_grantable from list l where l.oid = p.oid
        except select l.grantee, l.privilege_type, l.is_grantable from list l where l.oid = $1)
    union all
    (select l.grantee, l.privilege_type, l.is_grantable from list l where l.oid = $1
        except select l.grantee, l.privilege_type, l.is_grantable from list l where l.oid = p.oid)
)
