//! What the owner of the tables, or of the schema, cannot make a superuser or the scheduler do; and
//! who may read partitions.

use client::*;

/// The tables belong to a role of no special rights, whose indexes call functions of its own. Roles
/// are the server's, so each test names its own.
fn handed_over(database: &Database, owner: &str) -> Session {
    let mut s = database.connect();
    s.run(&format!(
        "create role {owner};
         create schema {owner} authorization {owner};
         create table {owner}.seen (by text);
         alter table {owner}.seen owner to {owner};
         grant usage, create on schema scylla to {owner};
         grant execute on all functions in schema scylla to {owner}"
    ));
    let hand_over = s.text(&format!(
        "select string_agg(format('alter table %s owner to {owner}', c.oid::regclass), ';')
         from pg_class c where c.relnamespace = 'scylla'::regnamespace and (c.relkind in ('r', 'p')
             -- A sequence of a column follows its table.
             or c.relkind = 'S' and not exists (
                 select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i')))"
    ));
    s.run(&hand_over);
    s
}

/// Creates an index of that role on a table, whose function does this for each row that is written.
fn create_index(s: &mut Session, owner: &str, table: &str, body: &str) {
    s.run(&format!(
        "set session authorization {owner};
         create function {owner}.act(updated timestamptz, created timestamptz) returns boolean
             language plpgsql immutable as $$begin {body} return true; end$$;
         create index act on {table} ({owner}.act(updated, created));
         alter function {owner}.act volatile;
         reset session authorization"
    ));
}

/// Has what is written to the table `seen` of that role do this at the commit.
fn defer(s: &mut Session, owner: &str, body: &str) {
    s.run(&format!(
        "set session authorization {owner};
         create function {owner}.rise() returns trigger language plpgsql as
             $$begin {body} return null; end$$;
         create constraint trigger rise after insert on {owner}.seen deferrable initially deferred
             for each row execute function {owner}.rise();
         reset session authorization"
    ));
}

fn drop_role(s: &mut Session, owner: &str) {
    s.run(&format!(
        "drop schema {owner} cascade; reassign owned by {owner} to postgres;
         drop owned by {owner}; drop role {owner}"
    ));
}

fn is_superuser(s: &mut Session, role: &str) -> bool {
    s.value("select rolsuper from pg_roles where rolname = $1", &[&role])
}

/// What an index's function leaves for the commit would run as the role that commits.
#[test]
fn deferred_trigger_of_the_tables_owner_never_runs_as_a_superuser() {
    let database = database();
    let mut s = handed_over(&database, "defers");
    defer(
        &mut s,
        "defers",
        "if current_user = 'postgres' then alter role defers superuser; end if;",
    );
    // The index is made of rows that are there already.
    let body = "if current_setting('test.armed', true) = 'on' then
                    insert into defers.seen values (current_user); end if;";
    s.submit("q");
    let lease = s.own_one("q");
    for (table, call) in [
        ("scylla.task", "select scylla.submit('q')".to_owned()),
        ("scylla.task", "select scylla.submit('q', key => 'k')".to_owned()),
        (
            "scylla.finished",
            format!("select scylla.return_task('{}', '{}')", lease.id, lease.token),
        ),
    ] {
        create_index(&mut s, "defers", table, body);
        s.run("set test.armed = on");
        let answer = s.query(&call, &[]);
        assert!(!is_superuser(&mut s, "defers"), "{call}");
        let refusal = failure(answer, &call);
        assert_eq!(refusal.code().code(), "42501", "{call}: {refusal:?}");
        assert!(refusal.message().contains("deferred trigger"), "{call}: {refusal:?}");
        assert_eq!(s.count("select count(*) from defers.seen"), 0);
        s.run("set test.armed = off; drop index scylla.act; drop function defers.act");
    }
    // One that is not deferred runs, as the tables' owner.
    s.run("drop trigger rise on defers.seen");
    for table in ["scylla.task", "scylla.finished"] {
        create_index(&mut s, "defers", table, body);
        s.run("set test.armed = on");
        match table {
            "scylla.task" => drop((s.submit("q"), s.submit_with("q", "key => 'k'"))),
            _ => s.complete(&lease),
        }
        s.run("set test.armed = off; drop index scylla.act; drop function defers.act");
    }
    assert_eq!(s.text("select string_agg(by, ',') from defers.seen"), "defers,defers,defers");
    s.text("select scylla.register_worker()");
    drop_role(&mut s, "defers");
}

#[test]
fn deferred_trigger_of_the_tables_owner_never_runs_as_the_scheduler() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = handed_over(&database, "defers");
    s.submit("q");
    defer(
        &mut s,
        "defers",
        "if current_user = 'postgres' then alter role defers superuser; end if;",
    );
    let body = "if updated > created then insert into defers.seen values (current_user); end if;";
    create_index(&mut s, "defers", "scylla.task", body);
    let lease = s.own_one_with("q", "timeout => '100 ms'");
    let refused = "cannot fire deferred trigger";
    eventually(seconds(10), "the scheduler has ended the lease, or said why not", || {
        let ended = s.status(lease.id) == "ready";
        (ended || server.log().contains(refused)).then_some(())
    });
    sleep(milliseconds(200));
    assert!(!is_superuser(&mut s, "defers"));
    assert!(server.log().contains(refused));
    server.assert_log_is_clean();
}

/// So would the query of a cursor that outlives its transaction.
#[test]
fn held_cursor_of_the_tables_owner_never_runs_as_a_superuser() {
    let database = database();
    let mut s = handed_over(&database, "holds");
    s.run(
        "set session authorization holds;
         create function holds.rise() returns int language plpgsql as $$
         begin
             if current_user = 'postgres' then alter role holds superuser; end if;
             return 1;
         end$$;
         reset session authorization",
    );
    let body = "execute 'declare c cursor with hold for select holds.rise()';";
    create_index(&mut s, "holds", "scylla.task", body);
    let answer = s.query("select scylla.submit('q')", &[]);
    assert!(!is_superuser(&mut s, "holds"), "by a superuser's submission");
    let refusal = failure(answer, "submit");
    assert_eq!(refusal.code().code(), "42501", "{refusal:?}");
    drop_role(&mut s, "holds");
}

/// What an index's function sets ends with the call.
#[test]
fn setting_of_an_index_function_does_not_outlive_the_call() {
    let database = database();
    let mut s = handed_over(&database, "sets");
    let body = "perform set_config('search_path', 'sets', false),
                    set_config('application_name', 'sets', false);";
    create_index(&mut s, "sets", "scylla.task", body);
    let shown =
        "select current_setting('search_path') || ' ' || current_setting('application_name')";
    let before = s.text(shown);
    s.submit("q");
    assert_eq!(s.text(shown), before);
    s.run("begin");
    s.submit("q");
    assert_eq!(s.text(shown), before);
    s.run("commit");
    assert_eq!(s.text(shown), before);
    // In the scheduler, too, where the function runs as the lease ends.
    let lease = s.own_one_with("q", "timeout => '100 ms'");
    let pid = database.scheduler();
    eventually(seconds(10), "the lease ends", || (s.status(lease.id) == "ready").then_some(()));
    let name: String =
        s.value("select application_name from pg_stat_activity where pid = $1", &[&pid]);
    assert_ne!(name, "sets");
    drop_role(&mut s, "sets");
}

/// The owner of the schema could put other functions and tables in the place of the extension's.
#[test]
fn schema_of_another_role_is_refused() {
    let database = Server::shared().bare_database();
    let mut s = database.connect();
    s.run("create role squatter; create schema scylla authorization squatter");
    let refusal = s.refusal("create extension scylla", &[]);
    assert_eq!(refusal.code().code(), "42501", "{refusal:?}");
    assert!(refusal.message().contains("schema \"scylla\""), "{refusal:?}");
    s.run("alter schema scylla owner to current_user; create extension scylla");
    s.submit("q");
    s.own_one("q");
    s.run("drop extension scylla; drop schema scylla");
    // One that belongs to another superuser is as good as one's own: a dump brings such a schema.
    s.run("alter role squatter superuser; create schema scylla authorization squatter");
    s.run("create extension scylla; drop extension scylla; drop schema scylla; drop role squatter");
}

/// A table that leaves the extension, and another one of its name.
#[test]
fn table_that_is_no_member_is_not_used() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    s.run(
        "alter extension scylla drop table scylla.task;
         alter table scylla.task rename to hidden_task;
         create table scylla.task (like scylla.hidden_task including all);
         insert into scylla.task select * from scylla.hidden_task",
    );
    let mut other = database.connect();
    for session in [&mut s, &mut other] {
        assert_eq!(session.refused("select scylla.submit('q')"), "55000");
        assert_eq!(session.refused(&format!("select scylla.cancel('{id}')")), "55000");
    }
    assert_eq!(s.count("select count(*) from scylla.task"), 1);
    s.run("drop table scylla.task; alter table scylla.hidden_task rename to task");
    assert_eq!(other.refused("select scylla.submit('q')"), "55000");
    s.run("alter extension scylla add table scylla.task");
    assert_eq!(other.own_one("q").id, id);
}

/// Tables of the extension's names, in a schema of its name, that are not the extension's.
#[test]
fn tables_that_only_have_the_extensions_names_are_left_alone() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    s.own_one_with("q", "timeout => '700 ms'");
    s.run("create role mimic; alter schema scylla owner to mimic");
    s.run(&format!("grant create on database {} to mimic", database.name));
    s.run(
        "begin;
         create schema mimic authorization mimic;
         alter schema scylla rename to hidden;
         create schema scylla authorization mimic",
    );
    for table in ["task", "dependency", "countdown", "lease", "incarnation"] {
        s.run(&format!("create table scylla.{table} (like hidden.{table} including all)"));
    }
    s.run(
        "create table scylla.finished (like hidden.finished including all)
             partition by range (updated);
         create table scylla.finished_default partition of scylla.finished default",
    );
    s.run(
        "insert into scylla.incarnation select * from hidden.incarnation;
         insert into scylla.task select * from hidden.task;
         create function scylla._newest(jsonb) returns jsonb language sql as 'select $1';
         create function scylla._history_with(jsonb, text, timestamptz) returns jsonb
             language sql as 'select $1';
         create table mimic.seen (by text);
         grant insert on mimic.seen to public;
         create function mimic.act() returns trigger language plpgsql as
             $$begin insert into mimic.seen values (current_user); return null; end$$;
         create trigger act after insert or update or delete on scylla.task
             for each row execute function mimic.act();
         commit",
    );
    sleep(milliseconds(2_500));
    assert_eq!(s.count("select count(*) from mimic.seen"), 0, "the scheduler changed them");
    // Nor does a function of the extension.
    assert_eq!(s.refused("select hidden.submit('q')"), "55000");
    assert_eq!(s.refused("select hidden.cancel((select id from hidden.task))"), "55000");
    assert_eq!(s.count("select count(*) from mimic.seen"), 0);
    assert_eq!(s.count("select count(*) from scylla.task"), 1);
    s.run(
        "drop schema scylla cascade; alter schema hidden rename to scylla;
         alter schema scylla owner to current_user",
    );
    eventually(seconds(10), "the lease ends", || (s.tasks("ready") == 1).then_some(()));
    s.own_one("q");
    s.run("drop schema mimic cascade; drop owned by mimic; drop role mimic");
}

/// Partitions have the privileges of their table, whatever their owner's default privileges are.
#[test]
fn partitions_have_the_privileges_of_their_table() {
    let server = Server::start(&[]);
    let database = server.bare_database();
    let mut s = database.connect();
    s.run("create role reader; create role auditor");
    s.run(
        "alter default privileges grant select on tables to public;
         alter default privileges grant all on tables to reader;
         alter default privileges grant usage on sequences to public",
    );
    s.run("create extension scylla");
    let open = "select count(*) from pg_class c, aclexplode(c.relacl) a
                where c.relnamespace = 'scylla'::regnamespace and c.relkind <> 'v' and a.grantee = 0";
    assert_eq!(s.count(open), 0);
    let list = |of| {
        format!(
            "(select array_agg(row(a.grantee, a.privilege_type, a.is_grantable)::text
                  order by a.grantee, a.privilege_type)
              from aclexplode(coalesce({of}.relacl, acldefault('r', {of}.relowner))) a)"
        )
    };
    let differ = &format!(
        "select count(*) from pg_inherits i
         join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
         where p.oid = 'scylla.finished'::regclass and {} is distinct from {}",
        list("c"),
        list("p")
    );
    let partitions =
        "select count(*) from pg_inherits where inhparent = 'scylla.finished'::regclass";
    s.submit("q");
    eventually(seconds(10), "the days are made", || (s.count(partitions) == 6).then_some(()));
    assert_eq!(s.count(open), 0, "open to everybody");
    assert_eq!(s.count(differ), 0);
    // What is granted later, the next days have as well.
    let grant = |table| {
        format!(
            "grant select on scylla.{table} to auditor;
             grant insert on scylla.{table} to auditor with grant option;
             revoke all on scylla.{table} from reader"
        )
    };
    s.run(&grant("finished"));
    let drop = s.text(
        "select string_agg('drop table ' || inhrelid::regclass, ';') from pg_inherits
         where inhparent = 'scylla.finished'::regclass
             and inhrelid <> 'scylla.finished_default'::regclass",
    );
    s.run(&drop);
    server.configure("scylla.retention", "9 d");
    eventually(seconds(15), "the days are made again", || (s.count(partitions) == 6).then_some(()));
    s.run(&grant("finished_default"));
    assert_eq!(s.count(differ), 0);
    let today =
        s.text("select 'scylla.finished_' || to_char(now() at time zone 'utc', 'YYYYMMDD')");
    let may = |s: &mut Session, role: &str, right: &str| {
        s.value::<bool>("select has_table_privilege($1, $2::text, $3)", &[&role, &today, &right])
    };
    assert!(may(&mut s, "auditor", "select") && may(&mut s, "auditor", "insert with grant option"));
    assert!(!may(&mut s, "reader", "select") && !may(&mut s, "auditor", "delete"));
}

/// A role that lacks a privilege is told which call grants it. The queue of a task is named to
/// those who may look at it.
#[test]
fn refusal_names_the_queue_and_the_grant() {
    let database = database();
    let mut s = database.connect();
    s.run("create role \"it's\" login");
    let id = s.submit("it's a queue");
    s.run("select scylla.delay('m', now() + interval '1 hour', 'it''s a queue', 'v')");
    let hint = |s: &mut Session, call: &str| {
        s.run("set role \"it's\"");
        let error = s.refusal(&format!("select {call}"), &[]);
        s.run("reset role");
        assert_eq!(error.code().code(), "42501", "{call}");
        let hint = error.hint().unwrap_or_else(|| panic!("no hint: {call}")).to_owned();
        let grant = &hint[hint.find("scylla.grant").unwrap()..hint.rfind('.').unwrap()];
        (grant.to_owned(), error.message().to_owned() + error.detail().unwrap())
    };
    let mut granted = Vec::new();
    for (call, privilege) in [
        ("scylla.submit('it''s a queue')", "submit"),
        ("scylla.own_tasks('w', 'it''s a queue')", "work"),
        ("scylla.cancel_message('it''s a queue', 'm')", "cancel"),
        ("scylla.pause('it''s a queue')", "manage"),
    ] {
        let (grant, told) = hint(&mut s, call);
        assert!(told.contains("queue \"it's a queue\""), "{call}: {told}");
        if privilege != "cancel" {
            assert!(grant.contains(privilege), "{grant}");
        }
        granted.push(grant);
    }
    for grant in granted {
        assert!(grant.starts_with("scylla.grant('it''s a queue', '\"it''s\"', '{"), "{grant}");
        s.run(&format!("select {grant}"));
    }
    // With submit, it may cancel what it has sent itself only.
    let (grant, told) = hint(&mut s, "scylla.cancel_message('it''s a queue', 'm')");
    assert!(
        told.contains("queue \"it's a queue\"") && grant.contains("{cancel}"),
        "{told} {grant}"
    );
    let cancel = format!("scylla.cancel('{id}')");
    assert!(!hint(&mut s, &cancel).1.contains("it's a queue"), "it may not look at the task");
    s.run("select scylla.grant('it''s a queue', '\"it''s\"', '{look}')");
    let (grant, told) = hint(&mut s, &cancel);
    assert!(told.contains("task's queue, \"it's a queue\""), "{told}");
    s.run(&format!("select {grant}"));
    assert!(s.cancel(id));
    for (call, grant) in [
        ("scylla.run_sql('select 1')", "scylla.grant('sql', '\"it''s\"', '{submit}')"),
        ("scylla.open()", "scylla.grant('*', '\"it''s\"', '{manage}')"),
    ] {
        assert_eq!(hint(&mut s, call).0, grant);
    }
    s.run("select scylla.revoke('it''s a queue', '\"it''s\"', '{submit,work,cancel,look,manage}')");
    // Of another role's schedule, the queue is told to those who may look at it. Whatever is asked
    // when the tables are open, the grant is to the caller.
    s.run("select scylla.schedule('s', '@daily', 'it''s a queue')");
    s.run("select scylla.grant('other', '\"it''s\"', '{submit}')");
    let (grant, told) = hint(&mut s, "scylla.unschedule('s')");
    assert_eq!(grant, "scylla.grant('...', '\"it''s\"', '{manage}')");
    assert!(!told.contains("it's a queue"), "{told}");
    s.run("select scylla.grant('it''s a queue', '\"it''s\"', '{look}')");
    for call in ["scylla.unschedule('s')", "scylla.alter_schedule('s', active => false)"] {
        let (grant, told) = hint(&mut s, call);
        assert_eq!(grant, "scylla.grant('it''s a queue', '\"it''s\"', '{manage}')");
        assert!(told.contains("its queue, \"it's a queue\""), "{told}");
    }
    s.run("select scylla.grant('it''s a queue', '\"it''s\"', '{manage}')");
    let (grant, _) = hint(&mut s, "scylla.alter_schedule('s', active => false)");
    assert_eq!(
        grant, "scylla.grant('it''s a queue', '\"it''s\"', '{submit}')",
        "found when it is locked"
    );
    s.run("set role \"it's\"; select scylla.unschedule('s'); reset role");
    s.run("select scylla.revoke('it''s a queue', '\"it''s\"', '{look,manage}')");
    s.run("select scylla.revoke('other', '\"it''s\"', '{submit}')");
    s.run("drop role \"it's\"");
}
