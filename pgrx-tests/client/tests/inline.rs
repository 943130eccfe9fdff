//! A caller does maintenance for a database without a scheduler, without harm to other sessions.

use client::*;

/// A server without slots for background workers, and a database whose board is built.
fn without_schedulers() -> (Server, Database) {
    let server = Server::start(&["max_worker_processes = 0"]);
    let database = server.database();
    let mut s = database.connect();
    assert!(s.own("w", "q", 1).is_empty(), "the board is built");
    (server, database)
}

/// 33, 34: an open transaction of another session changes no lease: `extend` returns the truth, and
/// a late return succeeds at once.
#[test]
fn open_transaction_of_another_session_keeps_no_lease_from_its_worker() {
    let (server, database) = without_schedulers();
    let (mut s, mut other) = (database.connect(), database.connect());
    let ids = s.submit_many("q", 3);
    let leases = s.own_with("w", "q", 3, "timeout => '50 ms'");
    sleep(milliseconds(80));
    other.run("begin");
    assert!(other.own("w", "other", 1).is_empty());
    // A call that waits for the other one would do so for ever.
    s.run("set statement_timeout = '30 s'");
    assert!(s.extend_with(&leases[0], "timeout => '1 hour'"));
    s.complete(&leases[0]);
    s.complete(&leases[1]);
    assert!(s.cancel(leases[2].id));
    other.run("commit");
    let statuses = ids.iter().map(|id| s.status(*id)).collect::<Vec<_>>();
    assert_eq!(statuses.iter().filter(|it| *it == "completed").count(), 2);
    assert!(ids.iter().all(|id| !s.history(*id).contains(&"Timeout".to_owned())));
    server.assert_log_is_clean();
}

/// 22, 56: a caller's commit ends expired leases, once; a rollback does not.
#[test]
fn commit_of_another_session_ends_expired_leases() {
    let (server, database) = without_schedulers();
    let (mut s, mut other) = (database.connect(), database.connect());
    let id = s.submit("q");
    s.own_one_with("q", "timeout => '50 ms'");
    let later = s.submit_with("later", "run_at => clock_timestamp() + interval '50 ms'");
    sleep(milliseconds(80));
    for end in ["rollback", "commit"] {
        other.run("begin");
        assert!(other.own("w", "q", 1).is_empty());
        assert_eq!((s.status(id), s.status(later)), ("running".into(), "waiting".into()), "{end}");
        other.run(end);
    }
    assert_eq!((s.status(id), s.status(later)), ("ready".into(), "ready".into()));
    assert_eq!(s.history(id), ["Assignment", "Timeout"]);
    assert_eq!(s.own_one_with("q", "timeout => '50 ms'").tries, 2);
    assert_eq!(s.own_one("later").id, later);
    // And by one in the middle of a procedure.
    sleep(milliseconds(80));
    other.run("do $$ begin perform scylla.own_tasks('w', 'none'); commit; end $$");
    assert_eq!(s.own_one("q").tries, 3);
    server.assert_log_is_clean();
}

/// I10: a row that cannot be written delays only its own expiry; neither other expiries nor the
/// caller's transaction fail.
#[test]
fn bad_row_fails_no_caller() {
    let (server, database) = without_schedulers();
    let mut s = database.connect();
    let bad = s.submit_with("q", "action => 'bad'");
    let ids = s.submit_many("q", 5);
    s.run(
        "create function public.refuse(action text, updated timestamptz, created timestamptz)
             returns boolean language plpgsql immutable as $$ begin
                 if action = 'bad' and updated > created then raise exception 'no'; end if;
                 return true;
             end $$;
         create index refuse on scylla.task (public.refuse(action, updated, created))",
    );
    s.own_with("w", "q", 6, "timeout => '50 ms'");
    sleep(milliseconds(80));
    let mine = s.submit("mine");
    eventually(seconds(5), "the others are ready again", || {
        s.own("w", "none", 1);
        ids.iter().all(|id| s.status(*id) == "ready").then_some(())
    });
    assert_eq!(s.own_one("mine").id, mine);
    assert_eq!(s.status(bad), "running");
    let line = format!("could not expire the lease of task {bad}");
    assert_eq!(server.log().matches(&line).count(), 1);
    server.assert_log_is_clean();
}
