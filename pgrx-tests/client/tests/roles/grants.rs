//! Granting and revoking: when it takes effect, and what is refused.

use crate::{answer, connect_as, grant, granted, revoke, role};
use client::*;

/// At the next call, also in sessions that are open and inside their transactions.
#[test]
fn grants_take_effect_in_open_sessions() {
    let database = database();
    let mut s = database.connect();
    let role = role(&mut s, "role");
    let mut r = connect_as(&database, &role);
    let submit = "select scylla.submit('q')";
    assert_eq!(answer(&mut r, submit), "42501");
    grant(&mut s, "q", &role, "submit");
    assert_eq!(answer(&mut r, submit), "ok");
    revoke(&mut s, "q", &role, "submit,look");
    assert_eq!(answer(&mut r, submit), "42501");
    for isolation in ["read committed", "repeatable read"] {
        grant(&mut s, "q", &role, "submit");
        r.run(&format!("begin isolation level {isolation}; {submit}; savepoint a"));
        revoke(&mut s, "q", &role, "submit");
        assert_eq!(answer(&mut r, submit), "42501", "{isolation}");
        r.run("rollback to a");
        grant(&mut s, "q", &role, "submit");
        assert_eq!(answer(&mut r, submit), "ok", "{isolation}");
        r.run("commit");
        revoke(&mut s, "q", &role, "submit");
    }
    assert_eq!(s.count("select count(*) from scylla.privilege"), 0);
}

/// Not before the commit, and not after a rollback, also to a savepoint.
#[test]
fn grants_follow_their_transaction() {
    let database = database();
    let mut s = database.connect();
    let role = role(&mut s, "role");
    let mut r = connect_as(&database, &role);
    let submit = "select scylla.submit('q')";
    let as_role = format!("set local role {role}; {submit}");
    s.run("begin");
    grant(&mut s, "q", &role, "submit");
    assert_eq!(answer(&mut r, submit), "42501");
    s.run(&format!("{as_role}; reset role; savepoint a"));
    revoke(&mut s, "q", &role, "submit");
    s.run("savepoint b");
    assert_eq!(answer(&mut s, &as_role), "42501");
    s.run("rollback to b; rollback to a");
    assert_eq!(answer(&mut s, &as_role), "ok");
    s.run("rollback");
    assert_eq!(answer(&mut r, submit), "42501");
    assert_eq!(answer(&mut s, &format!("begin; {as_role}")), "42501");
    s.run("rollback");
    s.run("begin");
    grant(&mut s, "q", &role, "submit");
    s.run("commit");
    assert_eq!(answer(&mut r, submit), "ok");
}

/// Two transactions that grant one after the other lose nothing.
#[test]
fn grants_of_two_sessions_add_up() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let role = role(&mut a, "role");
    a.run("begin");
    grant(&mut a, "q", &role, "submit");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| grant(&mut b, "q", &role, "look"));
        sleep(milliseconds(100));
        a.run("commit");
        second.join().unwrap();
    });
    let privileges: Vec<String> = a.value("select privileges from scylla.privilege", &[]);
    assert_eq!(privileges, ["submit", "look"]);
    // In the order of the reference, each once, and taken back one by one.
    grant(&mut a, "q", &role, "work,submit,work");
    let privileges: Vec<String> = a.value("select privileges from scylla.privilege", &[]);
    assert_eq!(privileges, ["submit", "work", "look"]);
    revoke(&mut a, "q", &role, "work,manage");
    revoke(&mut a, "other", &role, "submit");
    revoke(&mut a, "*", &role, "submit");
    let privileges: Vec<String> = a.value("select privileges from scylla.privilege", &[]);
    assert_eq!(privileges, ["submit", "look"]);
    revoke(&mut a, "q", &role, "submit,look");
    assert_eq!(a.count("select count(*) from scylla.privilege"), 0);
}

/// What changes of roles means for privileges is seen by open sessions, too.
#[test]
fn changes_of_roles_take_effect_in_open_sessions() {
    let database = database();
    let mut s = database.connect();
    let group = granted(&mut s, "group", "q", "submit");
    let member = role(&mut s, "member");
    let mut m = connect_as(&database, &member);
    let submit = "select scylla.submit('q')";
    let mut after = |s: &mut Session, change: String| {
        s.run(&change);
        answer(&mut m, submit)
    };
    assert_eq!(after(&mut s, "select 1".into()), "42501");
    assert_eq!(after(&mut s, format!("grant {group} to {member}")), "ok");
    assert_eq!(after(&mut s, format!("revoke {group} from {member}")), "42501");
    assert_eq!(after(&mut s, format!("alter role {member} superuser")), "ok");
    assert_eq!(after(&mut s, format!("alter role {member} nosuperuser")), "42501");
    assert_eq!(after(&mut s, format!("alter role {group} rename to {group}_new")), "42501");
    assert_eq!(after(&mut s, format!("grant {group}_new to {member}")), "ok");
    // A role in place of one that was dropped is another role.
    assert_eq!(after(&mut s, format!("drop role {group}_new; create role {group}_new")), "42501");
    assert_eq!(after(&mut s, format!("grant {group}_new to {member}")), "42501");
    assert_eq!(s.count("select count(*) from scylla.privilege where role::text = '-'"), 1);
    grant(&mut s, "other", &member, "look");
    assert_eq!(s.count("select count(*) from scylla.privilege"), 1, "the grant of no role is gone");
}

/// The role that counts is the current one, call by call.
#[test]
fn current_role_counts() {
    let database = database();
    let mut s = database.connect();
    let (one, other) = (granted(&mut s, "one", "q", "submit"), role(&mut s, "other"));
    let submit = "select scylla.submit('q')";
    for _ in 0..3 {
        s.run(&format!("set role {one}; {submit}"));
        s.run("reset role");
        s.run(&format!("set role {other}"));
        assert_eq!(answer(&mut s, submit), "42501");
        s.run(&format!("reset role; {submit}"));
    }
    s.run(&format!(
        "create function lent() returns uuid language sql security definer set search_path = ''
             as 'select scylla.submit(''q'')';
         alter function lent owner to {one}; set role {other}"
    ));
    assert_eq!(answer(&mut s, "select lent()"), "ok");
    assert_eq!(answer(&mut s, submit), "42501");
}

/// A worker that loses its privilege can do nothing with its tokens.
#[test]
fn token_alone_does_not_suffice() {
    let database = database();
    let mut s = database.connect();
    let role = granted(&mut s, "worker", "q", "work");
    s.submit("q");
    let mut w = connect_as(&database, &role);
    let lease = w.own_one("q");
    assert!(w.extend(&lease));
    revoke(&mut s, "q", &role, "work");
    assert_eq!(w.not_returned(&lease).code().code(), "42501");
    let refusal = w.refusal("select scylla.extend($1, $2)", &[&lease.id, &lease.token]);
    assert_eq!(refusal.code().code(), "42501");
    grant(&mut s, "q", &role, "work");
    w.complete(&lease);
}

#[test]
fn bad_arguments_are_refused() {
    let database = database();
    let mut s = database.connect();
    let gone = role(&mut s, "gone");
    let oid: u32 = s.value("select oid from pg_roles where rolname = $1", &[&gone]);
    s.run(&format!("drop role {gone}"));
    for function in ["grant", "revoke"] {
        for (arguments, state) in [
            ("null, 'postgres', '{look}'".to_owned(), "22004"),
            ("'q', null, '{look}'".to_owned(), "22004"),
            ("'q', 'postgres', null".to_owned(), "22004"),
            ("'q', 'postgres', array['look', null]".to_owned(), "22004"),
            ("'', 'postgres', '{look}'".to_owned(), "22023"),
            ("repeat('q', 49), 'postgres', '{look}'".to_owned(), "22023"),
            ("'q', 'postgres', '{Look}'".to_owned(), "22023"),
            ("'q', 'postgres', '{look,all}'".to_owned(), "22023"),
            ("'q', 'postgres', '{{look},{work}}'".to_owned(), "22023"),
            ("'q', 'nosuchrole', '{look}'".to_owned(), "42704"),
            (format!("'q', {oid}::oid::regrole, '{{look}}'"), "42704"),
            ("'q', 0::oid::regrole, '{look}'".to_owned(), "42704"),
        ] {
            let sql = format!("select scylla.{function}({arguments})");
            assert_eq!(answer(&mut s, &sql), state, "{sql}");
        }
        assert_eq!(
            s.refused(&format!(
                "begin read only; select scylla.{function}('q', 'postgres', '{{}}')"
            )),
            "25006"
        );
        s.run("rollback");
        s.run(&format!("select scylla.{function}('q', 'postgres', '{{}}')"));
    }
    assert_eq!(s.count("select count(*) from scylla.privilege"), 0);
}

/// Names that must be quoted, and queues of odd names.
#[test]
fn odd_names_of_roles_and_queues() {
    let database = database();
    let mut s = database.connect();
    let long = "é".repeat(31);
    for (n, name) in
        ["select", "user", "Mixed Case", "a\"b", "it's", "-", "123", " ", long.as_str()]
            .into_iter()
            .enumerate()
    {
        let queue = format!("it's 100% {n} \"\\");
        let name = format!("{name}{}", if name.len() < 50 { &database.name[6..] } else { "" });
        let quoted: String = s.value("select quote_ident($1)", &[&name]);
        s.run(&format!("create role {quoted}"));
        let grant = "select scylla.grant($1, $2::text::regrole, '{submit}')";
        s.execute(grant, &[&queue, &quoted]).unwrap();
        let (stored, same): (String, bool) = {
            let sql =
                "select role::text, role::oid = role::text::scylla.role::oid from scylla.privilege
                where queue = $1";
            let row = s.query_one(sql, &[&queue]).unwrap();
            (row.get(0), row.get(1))
        };
        assert_eq!((stored, same), (quoted.clone(), true));
        let mut r = connect_as(&database, &quoted);
        r.value::<Uuid>("select scylla.submit($1)", &[&queue]);
        assert_eq!(answer(&mut r, "select scylla.submit('other')"), "42501");
        let revoke = "select scylla.revoke($1, $2::text::regrole, '{submit}')";
        s.execute(revoke, &[&queue, &quoted]).unwrap();
        s.run(&format!("drop role {quoted}"));
    }
}
