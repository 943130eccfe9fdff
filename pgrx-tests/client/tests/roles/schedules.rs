//! Schedules fire with the rights of their owners, and belong to them.

use crate::{ALL, answer, connect_as, grant, granted, revoke};
use client::*;

/// Fires what is due in 2030, as a scheduler does that fires since then; how many runs fired.
fn fire(s: &mut Session, at: &str) -> i64 {
    let sql = "select scylla._fire_schedules($1::text::timestamptz, '2030-01-01Z')";
    s.value(sql, &[&at])
}

fn schedule(s: &mut Session, name: &str, queue: &str) {
    let sql = "select scylla.schedule($1, 'every 1 hour', $2, starts_at => '2030-01-01Z', misfire => 'all')";
    s.value::<i64>(sql, &[&name, &queue]);
}

fn is_active(s: &mut Session, name: &str) -> bool {
    s.value("select active from scylla.schedules where name = $1", &[&name])
}

/// Its owner's rights at the time that it fires count, not those of the time that it was
/// registered.
#[test]
fn schedule_fires_with_the_rights_of_its_owner() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let team = granted(&mut s, "team", "q", "submit");
    let member = granted(&mut s, "member", "elsewhere", "submit");
    s.run(&format!("grant {team} to {member}"));
    let mut r = connect_as(&database, &member);
    schedule(&mut r, "mine", "q");
    schedule(&mut s, "other", "q");
    assert_eq!(fire(&mut s, "2030-01-01 00:00:00Z"), 2);
    // A privilege on another queue does not count, nor one to look.
    s.run(&format!("revoke {team} from {member}"));
    grant(&mut s, "q", &member, "look,work,cancel,manage");
    assert_eq!(fire(&mut s, "2030-01-01 01:00:00Z"), 1);
    assert!(!is_active(&mut s, "mine"));
    assert!(is_active(&mut s, "other"));
    assert!(server.log().contains("WARNING:  schedule \"mine\" is inactive from now on"));
    assert!(server.log().contains("Its owner lacks the privilege \"submit\" on the queue."));
    // It stays inactive until its owner says so.
    grant(&mut s, "*", &member, "submit");
    assert_eq!(fire(&mut s, "2030-01-01 02:00:00Z"), 1);
    r.run("select scylla.alter_schedule('mine', true)");
    assert!(fire(&mut s, "2030-01-01 05:00:00Z") > 3);
    assert!(is_active(&mut s, "mine"));
    server.assert_log_is_clean();
}

/// Runs that were missed fire with the rights of the time that they are caught up with.
#[test]
fn missed_runs_need_the_rights_too() {
    let database = database();
    let mut s = database.connect();
    let role = granted(&mut s, "role", "q", "submit");
    let mut r = connect_as(&database, &role);
    schedule(&mut r, "mine", "q");
    r.run("select scylla.alter_schedule('mine', misfire => 'all')");
    revoke(&mut s, "q", &role, "submit");
    let sql = "select scylla._fire_schedules('2030-01-03Z', '2030-01-03Z')";
    assert_eq!(s.value::<i64>(sql, &[]), 0);
    assert!(!is_active(&mut s, "mine"));
    assert_eq!(s.count("select count(*) from scylla.missed"), 0);
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
}

/// The schedule of another role is changed by those who manage its queue only; it stays its
/// owner's.
#[test]
fn schedules_belong_to_their_owners() {
    let database = database();
    let mut s = database.connect();
    let owner = granted(&mut s, "owner", "q", "submit");
    let other = granted(&mut s, "other", "q", "submit,work,cancel,look");
    let manager = granted(&mut s, "manager", "q", ALL);
    grant(&mut s, "quiet", &other, ALL);
    let mut r = connect_as(&database, &owner);
    schedule(&mut r, "mine", "q");
    let mut o = connect_as(&database, &other);
    for change in [
        "select scylla.alter_schedule('mine', spec => '2')",
        "select scylla.alter_schedule('mine', queue => 'quiet')",
        "select scylla.schedule('mine', 'every 1 hour', 'quiet')",
        "select scylla.unschedule('mine')",
    ] {
        assert_eq!(answer(&mut o, change), "42501", "{change}");
    }
    let refusal = o.refusal("select scylla.unschedule('mine')", &[]);
    assert_eq!(refusal.message(), "permission denied for schedule \"mine\"");
    let mut m = connect_as(&database, &manager);
    m.run("select scylla.alter_schedule('mine', spec => '2')");
    // Not to a queue of the owner's that the manager may not submit to.
    grant(&mut s, "owners", &owner, "submit");
    assert_eq!(answer(&mut m, "select scylla.alter_schedule('mine', queue => 'owners')"), "42501");
    let name: String = s.value("select owner::text from scylla.schedule", &[]);
    assert_eq!(name, owner);
    m.run("select scylla.schedule('mine', 'every 1 hour', 'q')");
    let name: String = s.value("select owner::text from scylla.schedule", &[]);
    assert_eq!(name, manager);
    assert_eq!(answer(&mut r, "select scylla.unschedule('mine')"), "42501");
    assert_eq!(answer(&mut m, "select scylla.unschedule('mine')"), "ok");
    assert!(!m.value::<bool>("select scylla.unschedule('mine')", &[]));
}

/// An owner that was dropped is no role that another one could act for.
#[test]
fn schedule_of_no_role_belongs_to_the_managers() {
    let database = database();
    let mut s = database.connect();
    let owner = granted(&mut s, "owner", "q", "submit");
    let other = granted(&mut s, "other", "q", "submit");
    let manager = granted(&mut s, "manager", "q", "manage");
    schedule(&mut connect_as(&database, &owner), "mine", "q");
    revoke(&mut s, "q", &owner, "submit");
    s.run(&format!("drop role {owner}"));
    let remove = "select scylla.unschedule('mine')";
    assert_eq!(answer(&mut connect_as(&database, &other), remove), "42501");
    assert_eq!(answer(&mut connect_as(&database, &manager), remove), "ok");
}

/// The runs to come and the view show the queues that their reader may look at.
#[test]
fn schedules_show_only_what_may_be_looked_at() {
    let database = database();
    let mut s = database.connect();
    for (name, queue) in [("seen", "q"), ("hidden", "other")] {
        s.run(&format!("select scylla.schedule('{name}', 'every 1 hour', '{queue}')"));
    }
    let role = granted(&mut s, "looker", "q", "look");
    let mut r = connect_as(&database, &role);
    for from in ["scylla.schedules", "scylla.coming_runs()"] {
        let names = format!("select string_agg(distinct name, ' ') from {from}");
        assert_eq!(r.text(&names), "seen", "{from}");
        assert_eq!(s.text(&names), "hidden seen", "{from}");
    }
}
