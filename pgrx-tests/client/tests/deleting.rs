//! Deleting tasks together with the dependents that have nothing left to wait for.

use client::*;
use std::collections::BTreeMap;

/// Submits tasks by name in one batch, each with the names of its predecessors.
fn graph(s: &mut Session, tasks: &[(&'static str, &[&str])]) -> BTreeMap<&'static str, Uuid> {
    let ids: BTreeMap<&str, Uuid> = tasks.iter().map(|it| (it.0, Uuid::new_v4())).collect();
    let batch: Vec<Value> = tasks
        .iter()
        .map(|(name, after)| {
            let after: Vec<Uuid> = after.iter().map(|it| ids[it]).collect();
            json!({"queue": "q", "id": ids[name], "action": name, "after": after})
        })
        .collect();
    s.execute("select * from scylla.submit_tasks($1)", &[&json!(batch)]).unwrap();
    ids
}

/// The names of the live tasks, in order, each followed by its status.
fn live(s: &mut Session) -> String {
    s.text(
        "select coalesce(string_agg(action || ' ' || status, ', ' order by action), '')
         from scylla.tasks where status in ('waiting', 'ready', 'running')",
    )
}

/// B72: deleting the first task of a chain with an extra edge deletes the whole chain.
#[test]
fn chain_goes_whole() {
    let database = database();
    let mut s = database.connect();
    let it = graph(&mut s, &[("0", &[]), ("1", &["0"]), ("2", &["1"]), ("3", &["0", "2"])]);
    assert_eq!(s.delete(&[it["0"]]), 4);
    assert_eq!(live(&mut s), "");
    assert_eq!(s.refusal("select scylla.task($1)", &[&it["3"]]).code().code(), "P0002");
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
}

/// B72: a dependent that still waits for another predecessor is not deleted.
#[test]
fn dependent_of_another_root_stays() {
    let database = database();
    let mut s = database.connect();
    let it = graph(&mut s, &[("0", &[]), ("1", &[]), ("2", &["0", "1"]), ("3", &["0"])]);
    assert_eq!(s.delete(&[it["0"]]), 2, "0 and 3");
    assert_eq!(live(&mut s), "1 ready, 2 waiting");
    s.end(it["1"], "completed");
    let lease = s.own_one("q");
    assert_eq!((lease.id, lease.num_failures), (it["2"], 0), "a deleted one did not fail");
}

/// B72: deleting the root deletes the whole tree, even where branches meet.
#[test]
fn tree_goes_whole() {
    let database = database();
    let mut s = database.connect();
    let it = graph(
        &mut s,
        &[
            ("0", &[]),
            ("1", &["0"]),
            ("2", &["0"]),
            ("3", &["1"]),
            ("4", &["1", "2"]),
            ("5", &["2", "3"]),
            ("6", &["3"]),
        ],
    );
    let other = s.submit_with("q", "action => 'other'");
    assert_eq!(s.delete(&[it["0"]]), 7);
    assert_eq!(live(&mut s), "other ready");
    assert_eq!(s.delete(&[other, it["1"]]), 1);
}

/// B72: dependents of a completed task are not deleted with it.
#[test]
fn dependents_of_a_completed_task_stay() {
    let database = database();
    let mut s = database.connect();
    let it = graph(&mut s, &[("0", &[]), ("1", &["0"]), ("2", &["1"])]);
    s.end(it["0"], "completed");
    assert_eq!(s.delete(&[it["0"]]), 1);
    assert_eq!(live(&mut s), "1 ready, 2 waiting");
    s.end(it["1"], "completed");
    s.end(it["2"], "completed");
}

/// B72: deleting a completed task deletes no dependent that still waits for another task.
#[test]
fn completed_task_takes_no_dependent_that_waits_for_others() {
    let database = database();
    let mut s = database.connect();
    let it = graph(&mut s, &[("0", &[]), ("1", &[]), ("2", &["0", "1"]), ("3", &["2"])]);
    s.end(it["0"], "completed");
    assert_eq!(s.delete(&[it["0"]]), 1);
    assert_eq!(live(&mut s), "1 ready, 2 waiting, 3 waiting");
    assert_eq!(s.delete(&[it["1"]]), 3, "now 2 has nothing left to wait for");
    assert_eq!(live(&mut s), "");
}

/// I2: the worker of a deleted task learns of it at its next call. A rollback of the deletion
/// changes nothing.
#[test]
fn deletion_ends_leases_unless_it_rolls_back() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let it = graph(&mut s, &[("0", &[]), ("1", &["0"]), ("2", &[])]);
    let lease = s.try_own_task(it["0"]).unwrap();
    other.run("begin");
    assert_eq!(other.delete(&[it["0"], it["2"]]), 3);
    other.run("rollback");
    assert_eq!(live(&mut s), "0 running, 1 waiting, 2 ready");
    assert!(s.extend(&lease));
    let ready = s.own_one("q");
    assert_eq!(ready.id, it["2"]);
    assert_eq!(s.return_task(&ready, "yield").unwrap(), "ready");
    assert_eq!(other.delete(&[it["0"], it["2"]]), 3);
    assert!(!s.extend(&lease));
    assert_eq!(s.not_returned(&lease).code().code(), "P0002");
    assert!(s.own("w", "q", 9).is_empty());
}

/// A predecessor that has settled counts as settled, even if the scheduler has not counted it down
/// yet.
#[test]
fn deletion_counts_deferred_countdowns() {
    let database = database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    for _ in 0..20 {
        let it = graph(&mut s, &[("0", &[]), ("1", &[]), ("2", &[]), ("3", &["0", "1", "2"])]);
        let lease = holder.try_own_task(it["0"]).unwrap();
        holder.run("begin");
        holder.complete(&lease);
        s.end(it["1"], "completed"); // the row of 3 is locked
        holder.run("commit");
        assert_eq!(s.delete(&[it["2"]]), 2);
        assert_eq!(live(&mut s), "");
    }
}
