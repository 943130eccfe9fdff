//! A right to a schedule is decided when its row is locked: a call that waited for another
//! transaction goes by what that one has left.

use crate::{ALL, connect_as, granted};
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

/// B121: two transactions that give a job the same name at once have one job: the second one waits,
/// and changes it.
#[test]
fn a_job_that_two_schedule_at_once_is_one() {
    let server = Server::start(&[]);
    let (database, mut s, _) = with_job(&server);
    let schedule = |when| format!("select cron.schedule('new', '{when}', 'select 2')");
    let first = format!("set local role anna; {}; reset role", schedule("@daily"));
    assert_eq!(after(&mut s, &first, as_role(&database, "anna"), &schedule("@weekly")), "ok");
    assert_eq!(s.text(JOBS), "anna mine select 1, anna new select 2");
    assert_eq!(s.text("select schedule from cron.job where jobname = 'new'"), "@weekly");
    // The name is another role's as well.
    s.run(&format!("begin; set local role bert; {}; commit", schedule("@hourly")));
    assert_eq!(s.count("select count(*) from cron.job where jobname = 'new'"), 2);
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

/// The id of the tasks below.
const ID: &str = "00000000-0000-4000-8000-000000000001";

/// B10: a call about a task decides by the queue of the task that it finds: another task may have
/// had the id when the call began.
#[test]
fn a_task_that_got_the_id_meanwhile_is_out_of_reach() {
    let database = database();
    let mut s = database.connect();
    let anna = granted(&mut s, "anna", "q", ALL);
    let other = s.submit("q");
    let later = "run_at => now() + interval '1 h'";
    // Waiting tasks are not on the board: each call looks into the table, and waits for its lock.
    let again = |table: &str, then: &str| {
        format!(
            "lock table scylla.{table} in access exclusive mode;
             select scylla.delete_tasks('{{{ID}}}');
             select scylla.submit('hidden', '\"secret\"', id => '{ID}', {later}) {then}"
        )
    };
    let cancelled = format!("; select scylla.cancel('{ID}')");
    for (table, end, call) in [
        ("task", "", format!("select scylla.cancel('{ID}')")),
        ("task", "", format!("select scylla.cancel_tasks('{{{ID}}}')")),
        ("task", "", format!("select scylla.delay('{ID}', now())")),
        ("task", "", format!("select scylla.delete_tasks('{{{ID}}}')")),
        ("task", "", format!("select scylla.add_dependencies('{{{other}}}', '{{{ID}}}')")),
        ("task", "", format!("select scylla.add_dependencies('{{{ID}}}', '{{{other}}}')")),
        ("task", "", format!("select scylla.task('{ID}')")),
        ("task", "", format!("select scylla.why('{ID}')")),
        ("finished", &*cancelled, format!("select scylla.delete_tasks('{{{ID}}}')")),
        ("finished", &cancelled, format!("select scylla.resubmit('{{{ID}}}')")),
    ] {
        s.run(&format!("select scylla.submit('q', id => '{ID}', {later}) {end}"));
        let got = after(&mut s, &again(table, end), connect_as(&database, &anna), &call);
        let left = "select string_agg(queue || ' ' || status, ', ') from scylla.tasks
            where id = $1::text::uuid";
        let left: Option<String> = s.value(left, &[&ID]);
        let status = if end.is_empty() { "waiting" } else { "cancelled" };
        let expected = ("42501".to_owned(), Some(format!("hidden {status}")));
        assert_eq!((got, left), expected, "{call}");
        s.run(&format!("select scylla.delete_tasks('{{{ID}}}')"));
    }
    assert_eq!(s.status(other), "ready");
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
}

/// B10: nor is a ready task handed out that got the id, whether or not the board knows the one of
/// before.
#[test]
fn a_ready_task_that_got_the_id_meanwhile_is_not_owned() {
    let server = Server::start(&["scylla.board_size = 64"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role anna login; select scylla.grant('q', 'anna', '{work}')");
    let again = format!(
        "lock table scylla.task in access exclusive mode; select scylla.delete_tasks('{{{ID}}}');
         select scylla.submit('hidden', '\"secret\"', id => '{ID}')"
    );
    for (others, call) in [
        (0, format!("select scylla.own_task('{ID}', 'w')")),
        (0, "select 1 / count(*) from scylla.own_tasks('w', 'q')".to_owned()),
        (200, format!("select scylla.own_task('{ID}', 'w')")),
    ] {
        if others > 0 {
            s.submit_many("q", others);
        }
        s.run(&format!("select scylla.submit('q', id => '{ID}')"));
        let got = after(&mut s, &again, as_role(&database, "anna"), &call);
        // It is found to be gone, or another one.
        assert!(["55000", "22012", "P0002", "42501"].contains(&&*got), "{others}, {call}: {got}");
        let running = "select count(*) from scylla.tasks where status = 'running'";
        assert_eq!(s.count(running), 0, "{others}, {call}");
        // Those who may own it do.
        assert_eq!(s.own_one("hidden").spec, json!("secret"));
        s.run(&format!("select scylla.delete_tasks('{{{ID}}}')"));
    }
}

/// B10: a call that waits for a task shows the result of no other one that got its id meanwhile.
#[test]
fn a_wait_shows_no_result_of_a_task_out_of_reach() {
    let database = database();
    let mut s = database.connect();
    let anna = granted(&mut s, "anna", "q", ALL);
    let submit =
        |queue| format!("select scylla.submit('{queue}', id => '{ID}', post_result => true)");
    s.run(&submit("q"));
    let mut a = connect_as(&database, &anna);
    let pid = a.pid;
    thread::scope(|scope| {
        let wait = format!("call scylla.wait_for_task('{ID}', '20 s')");
        let waiting = scope.spawn(move || a.batch_execute(&wait).map_err(|error| code(&error)));
        let waits = "select count(*) from pg_stat_activity
            where pid = $1 and wait_event_type = 'Extension'";
        eventually(seconds(10), "it waits", || (s.value::<i64>(waits, &[&pid]) == 1).then_some(()));
        let delete = format!("select scylla.delete_tasks('{{{ID}}}')");
        s.run(&format!("begin; {delete}; {}; commit", submit("hidden")));
        s.end(ID.parse().unwrap(), "completed");
        assert_eq!(waiting.join().unwrap(), Err("42501".to_owned()));
    });
}

/// B52: a privilege that was revoked while a call about a task waited is gone.
#[test]
fn a_privilege_on_a_task_that_was_revoked_meanwhile_is_not_there() {
    let database = database();
    let mut s = database.connect();
    let anna = granted(&mut s, "anna", "q", "cancel,look");
    let id = s.submit_with("q", "run_at => now() + interval '1 h'");
    let lock = format!("select from scylla.task where id = '{id}' for update");
    for call in ["cancel('{id}')", "delay('{id}', now())", "delete_tasks('{{id}}')"] {
        let call = format!("select scylla.{}", call.replace("{id}", &id.to_string()));
        let revoke = format!("{lock}; select scylla.revoke('q', '{anna}', '{{cancel}}')");
        let got = after(&mut s, &revoke, connect_as(&database, &anna), &call);
        assert_eq!(got, "42501", "{call}");
        assert_eq!(s.status(id), "waiting");
        s.run(&format!("select scylla.grant('q', '{anna}', '{{cancel}}')"));
    }
}
