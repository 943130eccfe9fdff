//! Committed changes are visible, and a rollback leaves no trace: I2.

use client::*;

/// Asserts that no trace of these tasks is left.
#[track_caller]
fn assert_never_was(s: &mut Session, ids: &[Uuid]) {
    for id in ids {
        assert_eq!(s.refusal("select scylla.task($1)", &[id]).code().code(), "P0002");
    }
    assert_eq!(s.value::<i64>("select count(*) from scylla.tasks where id = any($1)", &[&ids]), 0);
}

fn owned(s: &mut Session) -> Vec<Uuid> {
    s.own("w", "q", 100).iter().map(|lease| lease.id).collect()
}

/// I2: a submission that rolls back leaves no trace.
#[test]
fn rolled_back_submit_leaves_nothing() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    a.run("begin");
    let mut ids = vec![a.submit("q"), a.submit_with("q", "priority => 5")];
    ids.extend(a.submit_many("q", 20));
    assert!(owned(&mut b).is_empty());
    a.run("rollback");
    assert_never_was(&mut b, &ids);
    assert!(owned(&mut b).is_empty());
}

/// I2: a task can be owned once its transaction has committed, not before, and not by that
/// transaction.
#[test]
fn task_is_offered_when_its_transaction_commits() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    a.run("begin");
    let id = a.submit("q");
    assert!(owned(&mut a).is_empty(), "not to its own transaction");
    assert!(owned(&mut b).is_empty());
    a.run("commit");
    assert_eq!(owned(&mut b), [id], "at once");
}

/// I2: a submission follows its savepoint: rolled back, released, nested.
#[test]
fn submit_in_a_savepoint_follows_it() {
    let database = database();
    let mut s = database.connect();
    s.run("begin; savepoint a");
    let gone = s.submit("q");
    s.run("rollback to a");
    let kept = s.submit("q");
    s.run("savepoint b");
    let released = s.submit("q");
    s.run("savepoint c");
    let nested_gone = s.submit("q");
    s.run("release c; savepoint d");
    let also_gone = s.submit("q");
    s.run("rollback to d; release d; rollback to b");
    let again = s.submit("q");
    s.run("release b; release a; commit");
    assert_never_was(&mut s, &[gone, released, nested_gone, also_gone]);
    assert_eq!(owned(&mut s), [kept, again]);
}

/// I2: a task that its transaction submits, and ends or delays, is on the board neither after a
/// rollback nor, after one to a savepoint in between, before the commit.
#[test]
fn what_is_undone_with_its_submission_is_not_offered() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let used = |s: &mut Session| s.count("select board_used::bigint from scylla.health");
    for end in [
        "scylla.cancel($1)",
        "scylla.delete_tasks(array[$1])",
        "scylla.delay($1, now() + interval '1 hour')",
        "scylla.submit('q', key => 'k', on_conflict => 'replace') from (select $1) it",
        "scylla.add_dependencies(array[scylla.submit('other')], array[$1])",
    ] {
        let call = |s: &mut Session, id: Uuid| {
            s.execute(&format!("select {}", end.replace("$1", "$1::uuid")), &[&id]).expect(end);
        };
        s.run("begin");
        let id = s.submit_with("q", "key => 'k'");
        call(&mut s, id);
        s.run("rollback");
        assert_eq!(used(&mut s), 0, "{end}: a rollback");
        s.run("begin; savepoint a");
        let id = s.submit_with("q", "key => 'k'");
        call(&mut s, id);
        s.run("rollback to a");
        assert_eq!(used(&mut s), 0, "{end}: a rollback to before both");
        let id = s.submit_with("q", "key => 'k'");
        s.run("savepoint b");
        call(&mut s, id);
        s.run("rollback to b");
        assert_eq!(used(&mut s), 0, "{end}: a rollback to between the two");
        assert!(owned(&mut s).is_empty(), "{end}: not to its own transaction");
        s.run("commit");
        assert_eq!(owned(&mut other), [id], "{end}");
        other.cancel(id);
    }
    // One that was offered before is offered again.
    let id = s.submit("q");
    s.run("begin; savepoint a");
    assert!(s.value::<bool>("select scylla.delay($1, now())", &[&id]));
    s.run("savepoint b");
    assert!(s.cancel(id));
    s.run("rollback to b; rollback to a");
    assert_eq!(owned(&mut other), [id]);
    s.run("commit");
}

/// I2: after a rollback to a savepoint another worker can own the task, before the transaction
/// ends.
#[test]
fn own_in_a_savepoint_is_undone_at_once() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let ids = a.submit_many("q", 4);
    a.run("begin");
    let kept = a.own_one("q");
    a.run("savepoint s");
    a.own("w", "q", 1);
    a.run("savepoint t");
    a.own("w", "q", 1);
    a.run("release t; rollback to s");
    let theirs = b.own("b", "q", 10);
    assert_eq!(theirs.len(), 3);
    assert!(
        theirs.iter().all(|lease| lease.tries == 1 && lease.id != kept.id),
        "the undone own is no try"
    );
    a.run("commit");
    assert!(a.extend(&kept) && theirs.iter().all(|lease| b.extend(lease)));
    assert_eq!(b.tasks("running"), ids.len() as i64);
}

/// I2: an own that rolls back puts its tasks back at once, in their old places.
#[test]
fn rolled_back_own_puts_its_tasks_back() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let ids: Vec<Uuid> =
        (0..6).map(|n| a.submit_with("q", &format!("priority => {}", 6 - n))).collect();
    a.run("begin");
    let lost = a.own("a", "q", 3);
    assert_eq!(b.own_one("q").id, ids[3]);
    a.run("rollback");
    assert!(!b.extend(&lost[0]), "its token is invalid");
    assert_eq!(b.not_returned(&lost[0]).code().code(), "55006");
    let again = b.own("b", "q", 100);
    let order: Vec<Uuid> = again.iter().map(|lease| lease.id).collect();
    assert_eq!(order, [&ids[..3], &ids[4..]].concat());
    assert!(again.iter().all(|lease| lease.tries == 1), "what was rolled back is no try");
    assert_eq!(b.history(ids[0]), ["Assignment"]);
}

/// I2: a statement that owns tasks and then fails puts them back.
#[test]
fn failed_statement_puts_back_what_it_owned() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let ids = a.submit_many("q", 3);
    let sql = "select 1 / (count(*) - 3) from scylla.own_tasks('a', 'q', 3)";
    assert_eq!(a.refusal(sql, &[]).code().code(), "22012");
    let again = b.own("b", "q", 5);
    assert_eq!(again.len(), ids.len());
    assert!(again.iter().all(|lease| lease.tries == 1));
}

/// I2: after a rollback to a savepoint the token is valid again; only the commit of the outer
/// transaction settles the task.
#[test]
fn return_in_a_savepoint_follows_it() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    a.submit_many("q", 4);
    let leases = a.own("a", "q", 4);
    a.run("begin");
    for (lease, outcome) in leases.iter().zip(["completed", "aborted", "retry", "yield"]) {
        a.run("savepoint s");
        a.return_task(lease, outcome).unwrap();
        a.run("rollback to s");
        assert!(a.extend(lease), "{outcome}");
    }
    a.run("savepoint t; savepoint u");
    a.complete(&leases[0]);
    a.run("release u");
    assert_eq!(b.status(leases[0].id), "running", "nothing has committed");
    a.run("rollback to t");
    a.complete(&leases[1]);
    a.run("release t; commit");
    let statuses: Vec<String> = leases.iter().map(|lease| b.status(lease.id)).collect();
    assert_eq!(statuses, ["running", "completed", "running", "running"]);
    assert!(b.extend(&leases[0]) && !b.extend(&leases[1]));
    assert!(owned(&mut b).is_empty(), "nothing came back to the lane");
    b.complete(&leases[0]);
}

/// I2: a return that rolls back leaves the lease as it was, with every outcome.
#[test]
fn rolled_back_return_leaves_the_lease() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for outcome in ["completed", "aborted", "retry", "yield"] {
        let id = a.submit("q");
        let lease = a.own_one("q");
        a.run("begin");
        a.return_task(&lease, outcome).unwrap();
        assert!(owned(&mut b).is_empty(), "{outcome}: not offered before the commit");
        a.run("rollback");
        assert_eq!(
            (b.status(id).as_str(), b.history(id)),
            ("running", vec!["Assignment".to_owned()])
        );
        assert!(b.extend(&lease), "{outcome}");
        assert!(owned(&mut b).is_empty(), "{outcome}");
        b.complete(&lease);
    }
}

/// I2: a cancel follows its savepoint.
#[test]
fn cancel_in_a_savepoint_follows_it() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let running = a.submit("q");
    let lease = a.own_one("q");
    let ready = a.submit("q");
    a.run("begin; savepoint s");
    assert!(a.cancel(running) && a.cancel(ready));
    a.run("savepoint t; release t; rollback to s; commit");
    assert_eq!((b.status(running).as_str(), b.status(ready).as_str()), ("running", "ready"));
    assert!(b.extend(&lease));
    assert_eq!(owned(&mut b), [ready]);
    a.run("begin; savepoint s");
    assert!(a.cancel(running));
    a.run("release s; commit");
    assert_eq!(b.status(running), "cancelled");
    assert!(!b.extend(&lease));
}

/// I2: a PL/pgSQL exception block undoes every operation, as a savepoint does.
#[test]
fn exception_block_undoes_every_operation() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let (a, b) = (s.own_one("q"), s.own_one("q"));
    s.run(&format!(
        "do $$ begin
           begin
             perform scylla.submit('q', priority => 9);
             perform scylla.own_tasks('w', 'q', 5);
             perform scylla.return_task('{}', '{}');
             perform scylla.cancel('{}');
             raise exception 'away with it';
           exception when raise_exception then null;
           end;
           perform scylla.submit('q', priority => 8);
         end $$",
        a.id, a.token, b.id
    ));
    assert!(s.extend(&a) && s.extend(&b));
    let priorities: Vec<i64> = s.own("w", "q", 10).iter().map(|lease| lease.priority).collect();
    assert_eq!(priorities, [8, 0]);
}

/// I3: a reservation expires at its deadline, even while its transaction is open.
#[test]
fn lease_shorter_than_its_transaction_expires() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for end in ["commit", "rollback"] {
        let id = a.submit("q");
        a.run("begin");
        let late = a.own_one_with("q", "timeout => '200 ms'");
        let lease =
            eventually(seconds(3), "the task is offered again", || b.own("b", "q", 1).pop());
        assert_eq!(lease.id, id);
        a.run(end);
        assert!(!a.extend(&late), "{end}: the late one has lost it");
        assert_eq!(a.not_returned(&late).code().code(), "55006");
        assert!(b.extend(&lease), "{end}: a late callback touches no other lease");
        assert!(owned(&mut a).is_empty());
        b.complete(&lease);
    }
}

/// I2: PREPARE TRANSACTION is refused after any call, as after NOTIFY.
#[test]
fn prepare_transaction_is_refused_after_any_call() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    a.submit_many("q", 2);
    let lease = a.own_one("q");
    let proof = format!("'{}', '{}'", lease.id, lease.token);
    for call in [
        "scylla.submit('q')".to_owned(),
        "scylla.own_tasks('w', 'q')".to_owned(),
        format!("scylla.extend({proof})"),
        format!("scylla.return_task({proof})"),
        format!("scylla.cancel('{}')", lease.id),
    ] {
        a.run(&format!("begin; select {call}"));
        let prepared = a.batch_execute("prepare transaction 'x'");
        assert_eq!(prepared.map_err(|error| code(&error)), Err("0A000".to_owned()), "{call}");
        a.run("rollback");
        assert!(b.extend(&lease), "{call} left no trace");
    }
    assert_eq!((b.tasks("ready"), b.tasks("running")), (1, 1));
    assert_eq!(owned(&mut b).len(), 1);
    a.run("begin; select 1; prepare transaction 'x'");
    a.run("commit prepared 'x'");
}

/// I5: an owner gets tasks that were committed after its snapshot.
#[test]
fn owner_gets_what_was_committed_after_its_snapshot() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for level in ["repeatable read", "serializable"] {
        a.run(&format!("begin isolation level {level}; select count(*) from scylla.tasks"));
        let id: Uuid = b.value("select scylla.submit('q', '{\"n\": 1}', action => 'late')", &[]);
        let lease = a.own_one("q");
        assert_eq!(
            (lease.id, lease.action.as_str(), lease.spec.clone()),
            (id, "late", json!({"n": 1})),
            "{level}"
        );
        a.run("commit");
        assert!(b.extend(&lease));
        a.run(&format!("begin isolation level {level}; select count(*) from scylla.tasks"));
        let id: Uuid = b.submit("q");
        let second = b.own_one("q");
        assert_eq!(second.id, id);
        a.complete(&second);
        a.run("commit");
        assert_eq!(b.status(id), "completed", "{level}");
        b.complete(&lease);
    }
}

/// I5: an owner does not get tasks that were cancelled after its snapshot.
#[test]
fn owner_does_not_get_what_was_cancelled_after_its_snapshot() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = b.submit("q");
    a.run("begin isolation level repeatable read; select count(*) from scylla.tasks");
    b.cancel(id);
    assert!(owned(&mut a).is_empty());
    a.run("commit");
}

/// I5: a LIMIT, a cursor or a target list that reads one row leaves no task half owned.
#[test]
fn owning_call_leases_all_it_promised_even_if_one_row_is_read() {
    let database = database();
    let mut s = database.connect();
    let mut running = 0;
    for (call, n) in [
        ("select id from scylla.own_tasks('w', 'q', 5) limit 1", 5),
        ("select scylla.own_tasks('w', 'q', 4) limit 1", 4),
        (
            "begin; declare c cursor for select * from scylla.own_tasks('w', 'q', 3); fetch 1 from c; close c; commit",
            3,
        ),
        ("select exists (select from scylla.own_tasks('w', 'q', 2))", 2),
    ] {
        s.submit_many("q", n);
        s.run(call);
        running += n as i64;
        assert_eq!(s.tasks("running"), running, "{call}");
        assert!(owned(&mut s).is_empty(), "{call}");
    }
    s.run("select id from scylla.submit_tasks('[{\"queue\": \"q\"}, {\"queue\": \"q\"}, {\"queue\": \"q\"}]') limit 1");
    assert_eq!(owned(&mut s).len(), 3);
}

/// In a read-only transaction each call that changes a task or the board raises 25006.
#[test]
fn read_only_transaction_refuses_every_change() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    let lease = s.own_one("q");
    let (id, proof) = (lease.id, format!("'{}', '{}'", lease.id, lease.token));
    for call in [
        "scylla.submit('q')".to_owned(),
        "scylla.submit_tasks('[{\"queue\": \"q\"}]')".to_owned(),
        "scylla.own_tasks('w', 'q')".to_owned(),
        format!(
            "scylla.own_task('{}', 'w')",
            s.value::<Uuid>("select id from scylla.tasks where status::text = 'ready'", &[])
        ),
        "scylla.register_worker()".to_owned(),
        format!("scylla.extend({proof})"),
        format!("scylla.extend_tasks(array['{id}']::uuid[], array['{}']::uuid[])", lease.token),
        format!("scylla.return_task({proof})"),
        format!("scylla.return_tasks(array['{id}']::uuid[], array['{}']::uuid[])", lease.token),
        format!("scylla.cancel('{id}')"),
        format!("scylla.cancel_tasks(array['{id}']::uuid[])"),
    ] {
        assert_eq!(s.refused(&format!("begin read only; select {call}")), "25006", "{call}");
        s.run("rollback");
    }
    s.run(&format!(
        "begin read only; select scylla.task('{id}'); select * from scylla.tasks; commit"
    ));
    assert_eq!((s.tasks("ready"), s.tasks("running")), (1, 1));
}

/// I6: owning and extending take no transaction id, change no row and write no WAL.
#[test]
fn owning_and_extending_write_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 200);
    // the first calls have kept plans, set visibility hints and pruned catalogue pages
    for lease in s.own("w", "q", 100) {
        s.extend(&lease);
    }
    s.run("begin");
    let writes = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint \
                  from pg_stat_xact_all_tables";
    let before = s.count(writes);
    let leases = s.own("w", "q", 5);
    assert!(leases.iter().all(|lease| s.extend(lease)));
    let unassigned = "select pg_current_xact_id_if_assigned() is null";
    assert!(s.value::<bool>(unassigned, &[]), "a transaction id was taken");
    assert_eq!(s.count(writes), before, "a row was written");
    s.run("commit");
    let call = format!("scylla.extend('{}', '{}')", leases[0].id, leases[0].token);
    for query in ["select * from scylla.own_tasks('w', 'q', 20)", &format!("select {call}")] {
        let plan: Value = s.value(&format!("explain (analyze, wal, format json) {query}"), &[]);
        assert_eq!(plan[0]["Plan"]["WAL Records"], 0, "{query}");
    }
}
