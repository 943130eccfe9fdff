//! A right to a schedule is decided when its row is locked: a call that waited for another transaction
//! goes by what that one has left.

use crate::granted;
use client::*;
use std::thread;

/// Makes one call wait for a transaction, which then commits; the SQLSTATE of the call, or `ok`.
#[track_caller]
fn after(admin: &mut Session, change: &str, mut caller: Session, call: &str) -> String {
    admin.run(&format!("begin; {change}"));
    thread::scope(|scope| {
        let pid = caller.pid;
        let waiting = scope.spawn(move || match caller.simple_query(call) {
            Ok(_) => "ok".to_owned(),
            Err(error) => code(&error),
        });
        let waits = "select coalesce(bool_or(wait_event_type = 'Lock'), false)
            from pg_stat_activity where pid = $1";
        eventually(seconds(5), "the call waits", || {
            admin.value::<bool>(waits, &[&pid]).then_some(())
        });
        admin.run("commit");
        waiting.join().unwrap()
    })
}

/// A database with the schema `cron`, and a role that has the job `mine` there: its number.
fn with_job(server: &Server) -> (Database, Session, i64) {
    let database = server.database();
    let mut s = database.connect();
    s.run("create role anna login; create role bert login");
    s.run("select scylla.enable_cron_api(); grant usage on schema cron to anna, bert");
    s.run("grant execute on function cron.alter_job to anna, bert");
    for role in ["anna", "bert"] {
        s.run(&format!("select scylla.grant('sql', '{role}', '{{submit}}')"));
    }
    let id =
        as_role(&database, "anna").value("select cron.schedule('mine', '@daily', 'select 1')", &[]);
    (database, s, id)
}

fn as_role(database: &Database, role: &str) -> Session {
    let mut s = database.connect();
    s.run(&format!("set role {role}"));
    s
}

const JOBS: &str =
    "select string_agg(concat_ws(' ', username, jobname, command), ', ' order by jobid)
    from cron.job";

/// B121: a job that became another role's while the call waited is not the caller's any more.
#[test]
fn a_job_that_was_transferred_meanwhile_is_not_changed() {
    let server = Server::start(&[]);
    let (database, mut s, id) = with_job(&server);
    let transfer = format!("select cron.alter_job({id}, username => 'postgres')");
    let back = format!("select cron.alter_job({id}, username => 'anna')");
    for (call, answer) in [
        (format!("select cron.alter_job({id}, command => 'alter role anna superuser')"), "P0002"),
        (format!("select cron.unschedule({id})"), "42501"),
        ("select cron.unschedule('mine')".to_owned(), "P0002"),
        (format!("select scylla.unschedule('cron:{id}')"), "42501"),
        (format!("select scylla.alter_schedule('cron:{id}', active => false)"), "42501"),
        (format!("select scylla.schedule_sql('cron:{id}', '@daily', 'select 2')"), "42501"),
    ] {
        let got = after(&mut s, &transfer, as_role(&database, "anna"), &call);
        assert_eq!(got, answer, "{call}");
        assert_eq!(s.text(JOBS), "postgres mine select 1", "{call}");
        s.run(&back);
    }
    // By its name the caller has no job any more, so it gets a new one.
    let call = "select cron.schedule('mine', '@daily', 'select 2')";
    assert_eq!(after(&mut s, &transfer, as_role(&database, "anna"), call), "ok");
    assert_eq!(s.text(JOBS), "postgres mine select 1, anna mine select 2");
    // So it cannot be given back.
    assert_eq!(s.refused(&back), "23505");
    server.assert_log_is_clean();
}

/// B121: a schedule that was replaced by another role's in one transaction is that role's.
#[test]
fn a_schedule_that_was_made_again_meanwhile_is_not_removed() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let anna = granted(&mut s, "anna", "q", "submit");
    let mut a = as_role(&database, &anna);
    for call in [
        "select scylla.unschedule('s')",
        "select scylla.alter_schedule('s', active => false)",
        "select scylla.schedule('s', '@hourly', 'q')",
    ] {
        a.run("select scylla.schedule('s', '@daily', 'q')");
        let again = "select scylla.unschedule('s'), scylla.schedule('s', '@weekly', 'q')";
        let got = after(&mut s, again, as_role(&database, &anna), call);
        assert_eq!(got, "42501", "{call}");
        let left =
            "select string_agg(concat_ws(' ', owner, schedule, active), ',') from scylla.schedules";
        assert_eq!(s.text(left), "postgres @weekly t", "{call}");
        s.run("select scylla.unschedule('s')");
    }
}

/// B52: a privilege that was revoked, or a membership, while the call waited is gone.
#[test]
fn what_was_revoked_meanwhile_is_not_there() {
    let server = Server::start(&[]);
    let (database, mut s, id) = with_job(&server);
    s.run("create role team; grant team to anna; alter role team login");
    s.run("select scylla.grant('sql', 'team', '{submit}')");
    let call = format!("select cron.alter_job({id}, command => 'select 2')");
    let touch = format!("select cron.alter_job({id}, active => true)");
    let revoke = format!("{touch}, scylla.revoke('sql', 'anna', '{{submit}}')");
    s.run("revoke team from anna");
    assert_eq!(after(&mut s, &revoke, as_role(&database, "anna"), &call), "42501");
    s.run("select scylla.grant('sql', 'anna', '{submit}'); grant team to anna");
    s.run(&format!("select cron.alter_job({id}, username => 'team')"));
    let leave = format!("{touch}; revoke team from anna");
    assert_eq!(after(&mut s, &leave, as_role(&database, "anna"), &call), "P0002");
    // A superuser that was demoted gives a job to no other role.
    s.run("create role boss superuser login; select scylla.grant('sql', 'boss', '{submit}')");
    let give = format!("select cron.alter_job({id}, username => 'bert')");
    let demote = format!("{touch}; alter role boss nosuperuser; grant team to boss");
    let mut boss = database.connect();
    boss.run("set session authorization boss");
    assert_eq!(after(&mut s, &demote, boss, &give), "42501");
    assert_eq!(s.text(JOBS), "team mine select 1");
    server.assert_log_is_clean();
}
