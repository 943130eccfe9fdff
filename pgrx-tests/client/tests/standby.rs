//! A hot standby hands out no tasks. After its promotion it continues from the primary's state: I1,
//! I9.

use client::*;

/// Waits until the standby has replayed all that the primary has written.
fn caught_up(primary: &mut Session, standby: &mut Session) {
    let written = primary.text("select pg_current_wal_insert_lsn()::text");
    let replayed = "select pg_last_wal_replay_lsn() >= ($1::text)::pg_lsn";
    eventually(seconds(20), "the standby has caught up", || {
        standby.value::<bool>(replayed, &[&written]).then_some(())
    });
}

#[test]
fn standby_refuses_and_after_promotion_serves() {
    let primary = Server::start(&["scylla.persist_leases_after = '100 ms'"]);
    let database = primary.database();
    let mut p = database.connect();
    let later = p.submit_with("results", "post_result => true");
    p.submit_with("done", "post_result => true");
    let awaited = p.own_one("done");
    p.complete(&awaited);
    p.submit_many("q", 20);
    let held = p.own_with("w", "q", 5, "timeout => '1 hour'");
    p.complete(&held[0]);
    p.until_leases_are_written(4);
    p.run("create role looker; select scylla.grant('done', 'looker', '{look}')");
    let standby = primary.standby();
    let copy = database.on(&standby);
    let late = p.submit("q");
    let mut s = copy.connect();
    caught_up(&mut p, &mut s);

    let (id, proof) = (held[1].id, format!("'{}', '{}'", held[1].id, held[1].token));
    for call in [
        "scylla.submit('q')".to_owned(),
        "scylla.submit_tasks('[{\"queue\": \"q\"}]')".to_owned(),
        "scylla.own_tasks('w', 'q')".to_owned(),
        format!("scylla.own_task('{late}', 'w')"),
        "scylla.register_worker()".to_owned(),
        format!("scylla.extend({proof})"),
        format!("scylla.return_task({proof})"),
        format!("scylla.cancel('{id}')"),
        "scylla.cancel_matching('{}')".to_owned(),
        "scylla.drop_queue('q')".to_owned(),
    ] {
        assert_eq!(s.refused(&format!("select {call}")), "25006", "{call}");
    }
    assert_eq!(
        s.text(&format!("select scylla.why('{late}')")),
        "this server is a standby, which hands out no tasks"
    );
    assert_eq!(s.refused("call scylla.wait_for_work('q', '1 s')"), "25006");
    assert_eq!(s.refused("call scylla.wait_for_any('{q}', '1 s')"), "25006");
    let done = format!("call scylla.wait_for_task('{}', '10 s')", awaited.id);
    assert_eq!(s.text(&done), "completed", "settled tasks can be read");
    let open = format!("call scylla.wait_for_task('{later}', '10 s')");
    let waiter = {
        let mut s = copy.connect();
        std::thread::spawn(move || s.text(&open))
    };
    p.cancel(later);
    assert_eq!(waiter.join().unwrap(), "cancelled", "a task that settles meanwhile, too");
    assert_eq!(s.status(held[0].id), "completed");
    assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'q'"), 21);
    let queues = "select coalesce(string_agg(format('%s %s %s', queue, completed, ready), ', ' order by queue), '')
        from scylla.queues";
    eventually(seconds(20), "the totals are written, and tasks are not counted", || {
        (s.text(queues) == "done 1 , q 1 , results 0 ").then_some(())
    });
    let listed = "select count(*) from scylla.list_tasks('{\"queue\": \"q\"}')";
    assert_eq!(s.count(listed), 21);
    assert_eq!(s.count("select scylla.cancel_matching('{}', dry_run => true)"), 20);
    for view in ["stats", "workers", "failed", "schedules", "health"] {
        s.run(&format!("select from scylla.{view}"));
    }
    s.run("set role looker");
    assert_eq!(s.count("select count(*) from scylla.tasks"), 1, "grants hold on a standby");
    assert_eq!(s.refused(&format!("select scylla.task('{late}')")), "42501");
    s.run("reset role");

    primary.kill();
    assert!(s.value::<bool>("select pg_promote(wait => true, wait_seconds => 60)", &[]));
    let mut s = copy.connect();
    assert!(held[1..].iter().all(|lease| s.extend(lease)), "leases of some age are restored");
    assert!(!s.extend(&held[0]));
    let owned = s.own_with("w", "q", 50, "timeout => '200 ms'");
    assert_eq!(owned.len(), 16, "the board is built from the tables");
    assert!(owned.iter().any(|lease| lease.id == late));
    eventually(seconds(10), "the scheduler runs", || (s.tasks("ready") == 16).then_some(()));
    held[1..].iter().for_each(|lease| s.complete(lease));
    standby.assert_log_is_clean();
}
