//! A commit that waits for a standby or for the disk delays only the tasks that must wait for it.

use client::*;

/// How late the tasks of a queue fired, in seconds after their `run_at`, in ascending order. Fails
/// when some have not fired within a time limit.
#[track_caller]
fn lateness(s: &mut Session, queue: &str, tasks: usize) -> Vec<f64> {
    let look = "select extract(epoch from updated - run_at)::float8 from scylla.task
                where queue = $1 and ready order by 1";
    eventually(seconds(8), "all tasks have fired", || {
        let rows = s.query(look, &[&queue]).expect("lateness");
        (rows.len() == tasks).then(|| rows.iter().map(|row| row.get(0)).collect())
    })
}

/// Submits tasks that become due one after the other, from 100 ms on.
fn submit_due(s: &mut Session, queue: &str, tasks: usize, step: &str) {
    let sql = format!(
        "select count(scylla.submit($1, run_at => clock_timestamp() + interval '100 ms' + n * interval '{step}'))
         from generate_series(1, {tasks}) n"
    );
    assert_eq!(s.value::<i64>(&sql, &[&queue]), tasks as i64);
}

/// The synchronous standby of a server is down until this value is dropped.
struct StandbyDown<'s>(&'s Server);

impl StandbyDown<'_> {
    #[track_caller]
    fn of(server: &Server) -> StandbyDown<'_> {
        server.configure("synchronous_standby_names", "missing");
        let mut s = server.connect();
        eventually(seconds(5), "the setting is read", || {
            (s.text("show synchronous_standby_names") == "missing").then_some(())
        });
        StandbyDown(server)
    }
}

impl Drop for StandbyDown<'_> {
    fn drop(&mut self) {
        self.0.configure("synchronous_standby_names", "");
    }
}

fn is_written(s: &mut Session, lease: &Lease) -> bool {
    s.value("select exists (select from scylla.lease where id = $1)", &[&lease.id])
}

/// While the synchronous standby is down, tasks fire and the scheduler sends notifications,
/// although a lease has expired and others must be persisted. The task of an expired lease is
/// offered only when the lease's end is durable (I1). Until then its worker may still return it.
#[test]
fn standby_that_is_down_holds_up_no_firing() {
    let server = Server::start(&["scylla.persist_leases_after = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 4);
    // This session does not wait for standbys, as a worker may choose.
    s.run("set synchronous_commit = local");
    let long = s.own_with("w", "q", 1, "timeout => '1 hour'").remove(0);
    let short = s.own_with("w", "q", 2, "timeout => '2 s'");
    let down = StandbyDown::of(&server);
    s.run("listen \"scylla.due\"");
    submit_due(&mut s, "due", 10, "50 ms");
    let late = lateness(&mut s, "due", 10);
    assert!(late[9] < 30.0, "{late:?}");
    use postgres::fallible_iterator::FallibleIterator;
    let heard = s.notifications().timeout_iter(seconds(30)).next().expect("the connection lives");
    assert!(heard.is_some(), "the scheduler sends a notification");
    eventually(seconds(3), "the lease is persisted", || is_written(&mut s, &long).then_some(()));
    let expired = "select count(*) from scylla.task where queue = 'q' and tries = 1";
    eventually(seconds(5), "the ends are in the table", || (s.count(expired) == 2).then_some(()));
    // The task that was not leased is ready.
    assert_eq!(
        s.own("w", "q", 10).len(),
        1,
        "no task is offered before the end of its lease is durable"
    );
    assert!(short.iter().all(|lease| s.status(lease.id) == "running"), "not ready before that");
    drop(down);
    let again = eventually(seconds(3), "they are offered again", || {
        let leases = s.own("w", "q", 10);
        (leases.len() == 2).then_some(leases)
    });
    assert!(again.iter().all(|lease| lease.tries == 2));
    assert!(short.iter().all(|lease| !s.extend(lease)));
    assert!(s.extend(&long));
    server.assert_log_is_clean();
}

/// A scheduler that ends while the standby is down leaves no task stuck.
#[test]
fn scheduler_that_ends_while_a_standby_is_down_strands_nothing() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let ids = s.submit_many("q", 3);
    s.run("set synchronous_commit = local");
    s.own_with("w", "q", 3, "timeout => '100 ms'");
    let down = StandbyDown::of(&server);
    sleep(milliseconds(400));
    let pid = database.scheduler();
    server.signal(pid, libc::SIGTERM);
    eventually(seconds(5), "there is another scheduler", || {
        database.schedulers().iter().any(|it| *it != pid).then_some(())
    });
    drop(down);
    let again = eventually(seconds(5), "they are offered again", || {
        let leases = s.own("w", "q", 10);
        (leases.len() == 3).then_some(leases)
    });
    assert!(again.iter().all(|lease| ids.contains(&lease.id) && lease.tries == 2));
    server.assert_log_is_clean();
}

/// While the disk takes 100 ms for each flush and leases expire all the time, tasks fire at their
/// time.
#[test]
fn slow_disk_holds_up_no_firing() {
    let server = Server::start(&[
        "fsync = on",
        "commit_delay = 100000",
        "commit_siblings = 0",
        "scylla.persist_leases_after = '10 ms'",
    ]);
    let database = server.database();
    let mut s = database.connect();
    s.run("set synchronous_commit = off");
    // Each lease ends once, in a queue from which no more are taken.
    let lost = |n: i32| format!("lost {n}");
    (1..=50).for_each(|n| _ = s.submit_many(&lost(n), 4));
    submit_due(&mut s, "due", 40, "50 ms");
    for n in 1..=50 {
        s.own_with("w", &lost(n), 4, &format!("timeout => '{} ms'", 40 * n));
    }
    let late = lateness(&mut s, "due", 40);
    // As late as on another server, and not by a flush.
    let other = client::database();
    let mut o = other.connect();
    other.scheduler();
    submit_due(&mut o, "due", 40, "50 ms");
    let usual = lateness(&mut o, "due", 40);
    assert!(late[20] < 0.04 + 2.0 * usual[20], "most are on time: {late:?}, {usual:?}");
    let expired = "select count(*) from scylla.task where queue like 'lost %' and tries = 1";
    eventually(seconds(5), "all have expired", || (s.count(expired) == 200).then_some(()));
    for n in 1..=50 {
        eventually(seconds(5), "all are ready", || {
            (!s.own("w", &lost(n), 4).is_empty()).then_some(())
        });
    }
}
