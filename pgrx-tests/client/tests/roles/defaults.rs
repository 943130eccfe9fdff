//! Default privileges, owners, and views: what is there is open to those only whom the extension
//! means.

use crate::{connect_as, granted, role};
use client::*;

/// What a role may do with the objects of both schemas, beyond what PUBLIC may.
const MORE: &str = "select coalesce(string_agg(what, ', ' order by what), '') from (
        select c.oid::regclass::text as what from pg_class c, aclexplode(c.relacl) a
        where c.relnamespace in (select oid from pg_namespace where nspname in ('scylla', 'cron', 'pgmq'))
            and a.grantee = $1::text::regrole
        union all
        select p.oid::regprocedure::text from pg_proc p, aclexplode(p.proacl) a
        where p.pronamespace in (select oid from pg_namespace where nspname in ('scylla', 'cron', 'pgmq'))
            and a.grantee = $1::text::regrole
        union all
        select nspname::text from pg_namespace n, aclexplode(n.nspacl) a
        where nspname in ('scylla', 'cron', 'pgmq') and (a.grantee = $1::text::regrole
            or a.grantee = 0 and a.privilege_type = 'CREATE')
    ) t";

/// B52: the default privileges of the creating role give nothing of the extension's to others.
#[test]
fn default_privileges_are_none_here() {
    let server = Server::start(&[]);
    let database = server.bare_database();
    let mut s = database.connect();
    let reader = role(&mut s, "reader");
    s.run(&format!(
        "alter default privileges grant all on tables to \"{reader}\" with grant option;
         alter default privileges grant all on sequences to \"{reader}\";
         alter default privileges grant all on functions to \"{reader}\" with grant option;
         alter default privileges grant all on schemas to \"{reader}\", public;
         alter default privileges grant all on tables to public;
         alter default privileges revoke execute on functions from public"
    ));
    s.run("create extension scylla; select scylla.enable_cron_api(), scylla.enable_pgmq_api()");
    s.run("select pgmq.create('m'), pgmq.send('m', '1')");
    // The scheduler makes the partitions.
    let partitions =
        "select count(*) from pg_inherits where inhparent = 'scylla.finished'::regclass";
    eventually(seconds(20), "there are partitions", || (s.count(partitions) > 3).then_some(()));
    assert_eq!(s.value::<String>(MORE, &[&format!("\"{reader}\"")]), "");
    let open = "select coalesce(string_agg(oid::regclass::text, ', '), '') from pg_class
        where relnamespace::regnamespace::text in ('scylla', 'cron', 'pgmq') and relkind in ('r', 'p', 'v', 'S')
            -- Of runs that the caller sees, as with pg_cron.
            and oid <> 'cron.job_run_details'::regclass
            and (has_table_privilege('public', oid, 'insert, update, delete, truncate')
                or relkind <> 'v' and has_table_privilege('public', oid, 'select'))";
    assert_eq!(s.text(open), "");
    let mut r = connect_as(&database, &format!("\"{reader}\""));
    assert_eq!(r.count("select count(*) from scylla.queues"), 0);
    assert_eq!(r.refused("select count(*) from pgmq.q_m"), "42501");
    s.run("grant usage on schema cron to public");
    assert_eq!(r.count("select count(*) from cron.job"), 0);
    assert_eq!(r.refused("select cron.alter_job(1, active => false)"), "42501");
    assert_eq!(
        r.refused("select cron.schedule('@daily', 'select 1')"),
        "42501",
        "no grant of scylla's"
    );
}

/// B52: each call acts for the one owner of the tables: where they have several, none is guessed.
#[test]
fn tables_with_several_owners_are_refused() {
    let database = database();
    let mut s = database.connect();
    let other = role(&mut s, "other");
    let user = granted(&mut s, "user", "q", "submit");
    let mut u = connect_as(&database, &user);
    let names = "select string_agg(oid::regclass::text, ' ' order by relname) from pg_class c
        where exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e') and relkind in ('r', 'p', 'S')
            and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')";
    let tables = s.text(names);
    assert!(tables.split(' ').count() > 12, "{tables}");
    for table in tables.split(' ') {
        u.run("select scylla.submit('q')");
        let kind = if table.contains("_number") || table.contains("_until") {
            "sequence"
        } else {
            "table"
        };
        s.run(&format!("alter {kind} {table} owner to {other}"));
        for s in [&mut u, &mut s] {
            let refusal = s.refusal("select scylla.submit('q')", &[]);
            assert_eq!(refusal.code().code(), "55000", "{table}");
            assert_eq!(
                refusal.message(),
                "the tables of extension \"scylla\" have different owners"
            );
            let detail = refusal.detail().unwrap();
            let is_named =
                [table, "scylla.task", "postgres", &other].iter().all(|it| detail.contains(*it));
            assert!(is_named, "{table}: {detail}");
        }
        s.run(&format!("alter {kind} {table} owner to postgres"));
    }
    u.run("select scylla.submit('q')");
    let id = s.submit("q");
    s.end(id, "completed");
    eventually(seconds(20), "the scheduler is back", || {
        (!database.schedulers().is_empty()).then_some(())
    });
}

/// B52: no view shows a row to a function of the reader's before it has decided to show the row.
#[test]
fn every_view_is_a_barrier() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    let without = "select coalesce(string_agg(oid::regclass::text, ', '), '') from pg_class
        where relnamespace::regnamespace::text in ('scylla', 'cron', 'pgmq') and relkind = 'v'
            and reloptions is distinct from '{security_barrier=true}'";
    assert_eq!(s.text(without), "");
    s.run("select scylla.configure_queue('hidden', max_running => 7), scylla.submit('hidden')");
    s.run("select scylla.configure_queue('q', max_running => 1), scylla.submit('q')");
    s.run(
        "create function leak(it int) returns boolean language plpgsql strict cost 0.000001 as
        'begin if it = 7 then raise ''leaked''; end if; return true; end'",
    );
    let looker = granted(&mut s, "looker", "q", "look");
    let mut r = connect_as(&database, &looker);
    assert_eq!(
        r.text("select string_agg(queue, ' ') from scylla.queues where leak(max_running)"),
        "q"
    );
}
