//! `drop_queue`, and queues that disappear by themselves.

use client::*;
use std::thread;

fn drop_queue(s: &mut Session, queue: &str) -> bool {
    s.value("select scylla.drop_queue($1)", &[&queue])
}

/// How many of the views and tables know a queue.
fn known(s: &mut Session, queue: &str) -> i64 {
    s.count(&format!(
        "select count(*) from (
             select queue from scylla.queues union all select queue from scylla.stats
             union all select queue from scylla.tasks union all select queue from scylla.privilege
             union all select queue from scylla.queue union all select queue from scylla.queue_total) k
         where queue = '{queue}'"
    ))
}

/// Everything of the queue goes at the commit, and nothing at a rollback; a later queue of that
/// name is new.
#[test]
fn a_dropped_queue_leaves_nothing() {
    let database = database();
    let mut s = database.connect();
    s.run("create role uses_q; select scylla.grant('q', 'uses_q', '{submit,look}')");
    s.run("select scylla.configure_queue('q', max_running => 1, aging => '1 s', max_running_per_group => 1)");
    s.run("select scylla.pause('q')");
    for outcome in ["completed", "aborted"] {
        s.run("select scylla.resume('q')");
        let id = s.submit("q");
        s.end(id, outcome);
    }
    s.submit_many("q", 3);
    s.submit_with("q", "run_at => now() + interval '1 day', key => 'k', group_key => 'g'");
    s.run("select scylla.delay('m', '2100-01-01Z', 'q', 'v')");
    s.submit("other");
    s.run("begin");
    assert!(drop_queue(&mut s, "q"));
    assert_eq!(s.count("select count(*) from scylla.task where queue = 'q'"), 0);
    s.run("rollback");
    assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'q'"), 7);
    s.run("begin; savepoint a");
    assert!(drop_queue(&mut s, "q"));
    s.run("rollback to a; commit");
    assert_eq!(s.own("w", "q", 5).len(), 1, "the limit holds still");
    assert_eq!(s.refused("select scylla.drop_queue('q')"), "55000");
    assert_eq!(s.value::<i64>(r#"select scylla.cancel_matching('{"worker": "w"}')"#, &[]), 1);
    assert!(drop_queue(&mut s, "q"));
    assert_eq!(known(&mut s, "q"), 0);
    assert!(!drop_queue(&mut s, "q"));
    assert!(!drop_queue(&mut s, "never"));
    s.run("set role uses_q");
    assert_eq!(s.refused("select scylla.submit('q')"), "42501");
    s.run("reset role");
    s.submit_many("q", 3);
    assert_eq!(s.own("w", "q", 5).len(), 3, "no limit is left");
    // Settings count from the first on again.
    s.run("select scylla.configure_queue('q', max_running => 4)");
    s.submit_many("q", 3);
    assert_eq!(s.own("w", "q", 5).len(), 1);
    let submitted = "select submitted from scylla.stats where queue = 'q'";
    assert_eq!(s.count(submitted), 6);
    assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'other'"), 1);
}

/// A queue of settings only, or of grants only, is one, too; grants on all queues stay.
#[test]
fn settings_and_grants_alone_make_a_queue() {
    let database = database();
    let mut s = database.connect();
    s.run("create role uses_all; select scylla.grant('*', 'uses_all', '{look}')");
    s.run("select scylla.configure_queue('set', timeout => '1 min')");
    s.run("select scylla.grant('granted', 'uses_all', '{work}')");
    assert!(drop_queue(&mut s, "set"));
    assert!(drop_queue(&mut s, "granted"));
    assert!(!drop_queue(&mut s, "set"));
    assert!(!drop_queue(&mut s, "granted"));
    s.submit("*");
    assert!(drop_queue(&mut s, "*"));
    assert_eq!(s.count("select count(*) from scylla.privilege"), 1);
    for (argument, wanted) in [("null", "22004"), ("''", "22023")] {
        assert_eq!(s.refused(&format!("select scylla.drop_queue({argument})")), wanted);
    }
    s.run("begin read only");
    assert_eq!(s.refused("select scylla.drop_queue('q')"), "25006");
    s.run("rollback");
}

/// It needs `manage` on all queues, and `cancel` on this one and on those of the dependents that
/// go.
#[test]
fn dropping_needs_both_privileges() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create role drops; select scylla.grant('q', 'drops', '{submit,work,cancel,look,manage}')",
    );
    let first = s.submit("q");
    s.submit_after("other", &[first], "priority => 0");
    s.run("set role drops");
    assert_eq!(s.refused("select scylla.drop_queue('q')"), "42501");
    s.run("reset role; select scylla.grant('*', 'drops', '{manage}'); set role drops");
    // The dependent is in a queue that the role may not cancel in.
    assert_eq!(s.refused("select scylla.drop_queue('q')"), "42501");
    assert_eq!(s.refused("select scylla.drop_queue('other')"), "42501");
    s.run("reset role; select scylla.grant('other', 'drops', '{cancel}'); set role drops");
    assert!(drop_queue(&mut s, "q"));
    s.run("reset role");
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
}

/// While a transaction that drops a queue is open, the scheduler goes on: it writes the totals of
/// others.
#[test]
fn an_open_drop_does_not_stop_the_scheduler() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit("q");
    s.submit("other");
    let written = "select count(*) from scylla.queue_total where queue in ('q', 'other')";
    eventually(seconds(30), "the totals are written", || (s.count(written) == 2).then_some(()));
    s.run("begin");
    assert!(drop_queue(&mut s, "q"));
    other.submit("q");
    other.submit("other");
    let total = "select events[1] from scylla.queue_total where queue = 'other'";
    eventually(seconds(30), "the totals are written", || (other.count(total) == 2).then_some(()));
    s.run("commit");
    assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'q'"), 1);
}

/// Ids in this order.
fn id(n: u32) -> String {
    format!("0000000{n}-0000-4000-8000-000000000000")
}

/// Waits until all of these processes wait for a lock.
#[track_caller]
fn until_waiting(s: &mut Session, pids: &[i32]) {
    let waits =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = any ($1)";
    eventually(seconds(10), "they wait", || {
        (s.value::<i64>(waits, &[&pids]) == pids.len() as i64).then_some(())
    });
}

/// A drop and a resubmission of many settled tasks of the queue lock them in one order, that of
/// their ids, in whatever order they lie in the table.
#[test]
fn a_drop_and_a_resubmission_take_turns() {
    let database = database();
    let [mut s, mut holder, mut drops, mut resubmits] = [(); 4].map(|()| database.connect());
    let (first, last) = (id(1), id(2));
    // The index by queue has the one first that settled first.
    for id in [&last, &first] {
        s.run(&format!("select scylla.submit('q', id => '{id}')"));
        s.run(&format!("select scylla.cancel('{id}')"));
    }
    let lock = format!("begin; select from scylla.finished where id = '{first}' for update");
    holder.run(&lock);
    let pids = [drops.pid, resubmits.pid];
    // After a panic its sessions are closed, so that the threads end.
    thread::scope(move |scope| {
        let drop = "select scylla.drop_queue('q')";
        let dropping = scope.spawn(move || drops.try_value::<bool>(drop, &[]));
        until_waiting(&mut s, &pids[..1]);
        let again = format!("select cardinality(scylla.resubmit('{{{first},{last}}}'))");
        let resubmitting = scope.spawn(move || resubmits.try_value::<i32>(&again, &[]));
        until_waiting(&mut s, &pids);
        let free = format!(
            "select count(*) from
                 (select from scylla.finished where id = '{last}' for update skip locked) f"
        );
        assert_eq!(s.count(&free), 1, "the last one is locked before the first one");
        holder.run("commit");
        assert!(dropping.join().unwrap().expect("no deadlock"));
        resubmitting.join().unwrap().expect("no deadlock");
    });
}

/// What settles while a drop waits for live tasks is left to a transaction that resubmits it: that
/// one may wait for the live tasks.
#[test]
fn a_drop_that_has_locked_live_tasks_waits_for_no_settled_one() {
    let database = database();
    let [mut s, mut returns, mut holder, mut drops, mut resubmits] =
        [(); 5].map(|()| database.connect());
    for n in 1..=3 {
        s.run(&format!("select scylla.submit('q', id => '{}')", id(n)));
    }
    let lock = |n| format!("begin; select from scylla.task where id = '{}' for update", id(n));
    let lease = returns.try_own_task(id(1).parse().unwrap()).expect("a task");
    returns.run("begin");
    returns.return_task(&lease, "aborted").expect("its status");
    holder.run(&lock(3));
    let pids = [drops.pid, resubmits.pid];
    thread::scope(move |scope| {
        let drop = "select scylla.drop_queue('q')";
        let dropping = scope.spawn(move || drops.try_value::<bool>(drop, &[]));
        until_waiting(&mut s, &pids[..1]);
        returns.run("commit");
        // The second one is locked, and the drop waits for the third.
        let free = format!(
            "select count(*) from
                 (select from scylla.task where id = '{}' for update skip locked) t",
            id(2)
        );
        eventually(seconds(10), "the second one is locked", || (s.count(&free) == 0).then_some(()));
        resubmits.run(&format!("begin; select scylla.resubmit('{{{}}}')", id(1)));
        let cancel = format!("select scylla.cancel('{}')", id(2));
        let cancelling = scope.spawn(move || code(&resubmits.batch_execute(&cancel).unwrap_err()));
        until_waiting(&mut s, &pids);
        holder.run("rollback");
        assert!(dropping.join().unwrap().expect("no deadlock"));
        assert_eq!(cancelling.join().unwrap(), "P0002", "it went with the queue");
    });
}

/// A queue without tasks, settings, grants and schedules that was not used for a day disappears.
#[test]
fn an_unused_queue_disappears() {
    let database = database();
    let mut s = database.connect();
    s.run("create role uses_some; select scylla.grant('granted', 'uses_some', '{look}')");
    for queue in ["gone", "settled", "live", "set", "granted", "fresh", "polled"] {
        let id = s.submit(queue);
        s.delete(&[id]);
    }
    s.run("select scylla.configure_queue('set', timeout => '1 min')");
    s.submit("live");
    let settled = s.submit("settled");
    s.cancel(settled);
    s.own("w", "polled", 1);
    eventually(seconds(30), "the totals are written", || {
        (s.count("select count(*) from scylla.queue_total") == 7).then_some(())
    });
    s.run(
        "update scylla.queue_total set used = now() - interval '25 hours' where queue <> 'fresh'",
    );
    eventually(seconds(60), "the queue has gone", || {
        (s.count("select count(*) from scylla.queues where queue = 'gone'") == 0).then_some(())
    });
    let left = s.text("select string_agg(queue, ' ' order by queue) from scylla.queues");
    assert_eq!(left, "fresh granted live polled set settled");
    let looked = "select count(*) from scylla.queue_total where used < now() - interval '24 hours'";
    assert_eq!(s.count(looked), 0, "they are looked at again in an hour");
}

/// The row of `health`: to any role, but for what other sessions do.
#[test]
fn health_has_one_row() {
    let server =
        Server::start(&["scylla.persist_leases_after = 0", "scylla.sweep_interval = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role stranger");
    s.submit_many("q", 5);
    assert_eq!(s.own_with("w", "q", 3, "timeout => '1 day'").len(), 3);
    let row = "select format('%s %s %s %s %s', protocol, open, scheduler_pid is not null,
        board_used between 3 and board_size, lanes_used between 1 and lanes) from scylla.health";
    assert_eq!(s.text(row), "1 t t t t");
    let pid: i32 = s.value("select scheduler_pid from scylla.health", &[]);
    assert_eq!(pid, database.scheduler());
    let since = "select scheduler_since between now() - interval '10 min' and clock_timestamp() from scylla.health";
    assert!(s.value::<bool>(since, &[]));
    s.until_leases_are_written(3);
    let mut other = database.connect();
    other.run("begin isolation level repeatable read; select 1");
    let holder = format!("process {}", other.pid);
    eventually(seconds(10), "it is the oldest", || {
        (s.text("select coalesce(xmin_holder, '') from scylla.health") == holder).then_some(())
    });
    s.run("set role stranger");
    assert_eq!(s.text("select coalesce(xmin_holder, 'hidden') from scylla.health"), "hidden");
    assert_eq!(s.count("select count(*) from scylla.health"), 1);
    s.run("reset role; select scylla.open(false)");
    assert!(!s.value::<bool>("select open from scylla.health", &[]));
    other.run("rollback");
    // In a closed database nothing fires.
    s.submit_with("q", "run_at => clock_timestamp() + interval '1 ms'");
    let due = "select count(*) from scylla.health where oldest_due > interval '0'";
    eventually(seconds(10), "a task is due", || (s.count(due) == 1).then_some(()));
    s.run("select scylla.open(true)");
    eventually(seconds(10), "it fires", || (s.count(due) == 0).then_some(()));
    // A scheduler that is stopped lags.
    server.signal(pid, libc::SIGSTOP);
    let lag = "select scheduler_lag > interval '500 ms' from scylla.health";
    eventually(seconds(20), "it lags", || s.value::<bool>(lag, &[]).then_some(()));
    server.signal(pid, libc::SIGCONT);
    eventually(seconds(20), "it goes on", || (!s.value::<bool>(lag, &[])).then_some(()));
    server.kill();
    server.start_again();
    let mut s = database.connect();
    s.own("w2", "q", 1);
    assert_eq!(s.count("select leases_restored::bigint from scylla.health"), 3);
}
