//! Graphs of tasks under concurrency: no task runs too early, and none waits for ever.

mod cycles;
mod locked;
mod model;

mod races;
mod wide;

use client::*;

/// Submits tasks of one queue in one batch, as `(id, after)`.
fn submit_graph(s: &mut Session, queue: &str, tasks: &[(Uuid, Vec<Uuid>)]) {
    let batch: Vec<Value> =
        tasks.iter().map(|(id, after)| json!({"queue": queue, "id": id, "after": after})).collect();
    s.execute("select * from scylla.submit_tasks($1)", &[&json!(batch)]).expect("submit_tasks");
}

fn new_ids(n: usize) -> Vec<Uuid> {
    (0..n).map(|_| Uuid::new_v4()).collect()
}

/// Returns many leases at once.
fn return_all(s: &mut Session, leases: &[Lease]) {
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
        leases.iter().map(|lease| (lease.id, lease.token)).unzip();
    let answers: Vec<Option<String>> =
        s.value("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    assert!(answers.iter().all(|it| it.as_deref() == Some("completed")), "{answers:?}");
}

/// Asserts that no edge and no countdown remains once all tasks have settled.
#[track_caller]
fn assert_empty(s: &mut Session) {
    for table in ["task", "dependency", "countdown"] {
        let look = format!("select count(*) from scylla.{table}");
        eventually(seconds(5), &format!("{table} is empty"), || {
            (s.count(&look) == 0).then_some(())
        });
    }
}
