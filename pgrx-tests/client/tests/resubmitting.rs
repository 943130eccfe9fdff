//! resubmit: aborted and cancelled tasks run again, as new tasks.

use client::*;

fn resubmit(s: &mut Session, ids: &[Uuid]) -> Vec<Option<Uuid>> {
    s.value("select scylla.resubmit($1)", &[&ids])
}

/// What a new task must have from the one that it repeats.
fn copied(s: &mut Session, table: &str, id: Uuid) -> Value {
    let sql = format!(
        "select jsonb_build_object('queue', queue, 'action', action, 'priority', priority,
             'spec', md5(spec::text), 'key', key, 'max_tries', max_tries, 'timeout', timeout,
             'retry_interval', retry_interval, 'retry_jitter', retry_jitter,
             'post_result', post_result)
         from scylla.{table} where id = $1"
    );
    s.value(&sql, &[&id])
}

/// Each way in which a task is aborted or cancelled.
const ENDS: [&str; 5] = [
    "select scylla.cancel($1) where $2::uuid is not null",
    "select scylla.return_task($1, $2, 'aborted', error => '\"first\"')",
    "select scylla.return_task($1, $2, 'retry', error => '\"first\"')",
    "select scylla.return_task($1, $2, 'retry')",
    "select scylla.cancel_tasks(array[$1::uuid]) where $2::uuid is not null",
];

/// The fields come along, whichever way the old task ended; its time and its predecessors do not.
#[test]
fn new_task_has_the_fields_of_the_old_one() {
    let database = database();
    let mut s = database.connect();
    let check = |s: &mut Session| {
        for (n, end) in ENDS.iter().enumerate() {
            let settled = s.submit("q");
            s.cancel(settled);
            let sql = "select scylla.submit('q', (select jsonb_agg(sha512(i::text::bytea)::text)
                     from generate_series(1, 200) i), action => 'a', priority => 7, key => 'k',
                 run_at => now() - interval '1 s', after => array[$1::uuid], on_failure => 'run',
                 max_tries => 1, retry_interval => '1 h', retry_jitter => '1 min',
                 timeout => '1 day', post_result => true)";
            let old: Uuid = s.value(sql, &[&settled]);
            let live = copied(s, "task", old);
            let lease = s.try_own_task(old).unwrap();
            s.execute(*end, &[&lease.id, &lease.token]).unwrap();
            let before = s.entry(old);
            assert!(["aborted", "cancelled"].contains(&before["status"].as_str().unwrap()));
            assert_eq!(copied(s, "finished", old), live, "{end}");

            let new = resubmit(s, &[old])[0].expect("a new task");
            assert_ne!(new, old);
            assert_eq!(copied(s, "task", new), live, "{end}");
            let entry = s.entry(new);
            let fresh = json!({"rn": new, "status": "ready", "tries": 0, "errors": [],
                "history": [], "run_at": null, "after": [], "num_failures": 0, "owner": null,
                "resubmitted_from": old});
            for (name, value) in fresh.as_object().unwrap() {
                assert_eq!(&entry[name], value, "{name} after {n}");
            }
            assert_ne!(entry["created"], before["created"]);
            assert_eq!(s.entry(old), before, "the old task never changes");
            let shown: (Uuid, Uuid) = {
                let sql = "select id, resubmitted_from from scylla.tasks where id = $1";
                let row = s.query_one(sql, &[&new]).unwrap();
                (row.get(0), row.get(1))
            };
            assert_eq!(shown, (new, old));
            s.end(new, "completed");
            assert_eq!(s.entry(new)["resubmitted_from"], json!(old), "also when it has settled");
        }
    };
    check(&mut s);
}

/// Only what was aborted or cancelled runs again, and an id that is repeated does once.
#[test]
fn others_are_answered_with_null() {
    let database = database();
    let mut s = database.connect();
    let ids: Vec<Uuid> = (0..5).map(|_| s.submit("q")).collect();
    let [cancelled, completed, ready, running, aborted] = *ids else { unreachable!() };
    s.cancel(cancelled);
    s.end(completed, "completed");
    s.end(aborted, "aborted");
    s.try_own_task(running).unwrap();
    let none = Uuid::new_v4();
    let wanted = [aborted, completed, none, cancelled, ready, aborted, running];
    let new = resubmit(&mut s, &wanted);
    assert_eq!(
        new.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false, true, false, true, false]
    );
    assert_eq!(new[0], new[5]);
    assert_eq!(s.count("select count(*) from scylla.task"), 4, "two are new");
    assert!(
        s.entry(new[0].unwrap())["created"].as_str() < s.entry(new[3].unwrap())["created"].as_str()
    );
    for ids in ["'{}'", "null"] {
        assert_eq!(s.text(&format!("select scylla.resubmit({ids})::text")), "{}");
    }
    // Once more: each call makes a new task.
    assert_ne!(resubmit(&mut s, &[aborted])[0], new[0]);
}

/// A task that fails again is resubmitted again, and tells which one it repeats.
#[test]
fn resubmitted_task_can_be_resubmitted() {
    let database = database();
    let mut s = database.connect();
    let first = s.submit("q");
    s.end(first, "aborted");
    let second = resubmit(&mut s, &[first])[0].unwrap();
    s.end(second, "aborted");
    let third = resubmit(&mut s, &[second])[0].unwrap();
    assert_eq!(s.entry(third)["resubmitted_from"], json!(second));
    assert_eq!(s.entry(second)["resubmitted_from"], json!(first));
    assert_eq!(s.entry(first)["resubmitted_from"], Value::Null);
    s.end(third, "completed");
}

/// B74: a key that another task has meanwhile stays with that task.
#[test]
fn key_that_is_taken_is_left_out() {
    let database = database();
    let mut s = database.connect();
    let with_key = |s: &mut Session, key: &str| -> Uuid {
        let id = s.value("select scylla.submit('q', key => $1)", &[&key]);
        s.cancel(id);
        id
    };
    let old = [
        with_key(&mut s, "taken"),
        with_key(&mut s, "free"),
        with_key(&mut s, "twice"),
        with_key(&mut s, "twice"),
    ];
    let holder: Uuid = s.value("select scylla.submit('q', key => 'taken')", &[]);
    let new = resubmit(&mut s, &old);
    let keys: Vec<Value> = new.iter().map(|id| s.entry(id.unwrap())["key"].clone()).collect();
    assert_eq!(keys, [Value::Null, json!("free"), json!("twice"), Value::Null]);
    let named: Uuid = s.value("select scylla.task_id('q', 'taken')", &[]);
    assert_eq!(named, holder);
    assert_eq!(s.own("w", "q", 9).len(), 5);
}

/// A submission of another transaction that may take the key is waited for.
#[test]
fn key_of_an_open_submission_is_waited_for() {
    for (end, key) in [("commit", Value::Null), ("rollback", json!("k"))] {
        let database = database();
        let [mut a, mut b, mut watcher] = [(); 3].map(|()| database.connect());
        let old: Uuid = a.value("select scylla.submit('q', key => 'k')", &[]);
        a.cancel(old);
        a.run("begin; select scylla.submit('q', key => 'k')");
        let new = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| resubmit(&mut b, &[old])[0].unwrap());
            let is_waiting = "select exists (select from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock' and query like '%resubmit(%')";
            eventually(seconds(10), "the call waits", || {
                watcher.value::<bool>(is_waiting, &[]).then_some(())
            });
            a.run(end);
            waiting.join().unwrap()
        });
        assert_eq!(a.entry(new)["key"], key, "{end}");
    }
}

/// I2: ready at the commit; what rolled back is no task.
#[test]
fn rollback_resubmits_nothing() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let old = s.submit("q");
    s.cancel(old);
    for (end, tasks) in [("rollback", 0), ("commit", 1)] {
        s.run("begin");
        resubmit(&mut s, &[old]);
        assert_eq!(other.own("w", "q", 9).len(), 0);
        s.run(end);
        assert_eq!(other.own("w", "q", 9).len(), tasks, "{end}");
    }
}

/// The view `failed` tells what was resubmitted, so that all that failed can be submitted again
/// once: even if the new task is deleted as it completes.
#[test]
fn all_that_failed_is_resubmitted_once() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', keep_finished => false)");
    let failed: Vec<Uuid> = (0..3).map(|_| s.submit("q")).collect();
    failed.iter().for_each(|id| s.end(*id, "aborted"));
    let again = "select cardinality(scylla.resubmit(array_agg(id)))::bigint from scylla.failed
                 where resubmitted_as is null";
    assert_eq!((s.count(again), s.count(again)), (3, 0));
    let shown: Vec<(Uuid, Uuid)> = {
        let sql = "select f.id, t.id from scylla.failed f
             join scylla.tasks t on t.id = f.resubmitted_as and t.resubmitted_from = f.id order by f.id";
        s.query(sql, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let mut sorted = failed.clone();
    sorted.sort();
    assert_eq!(shown.iter().map(|it| it.0).collect::<Vec<_>>(), sorted);
    for (_, new) in &shown {
        s.end(*new, "completed");
    }
    assert_eq!(s.count("select count(*) from scylla.tasks where status = 'completed'"), 0);
    assert_eq!(s.count(again), 0);
    // The latest of several.
    let second = resubmit(&mut s, &[failed[0]])[0].unwrap();
    let sql = "select resubmitted_as from scylla.failed where id = $1";
    assert_eq!(s.value::<Uuid>(sql, &[&failed[0]]), second);
}

/// Two calls for one task at once: the second waits, sees what the first did, and the view shows
/// its task.
#[test]
fn second_of_two_resubmissions_waits_for_the_first() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let old = a.submit("q");
    a.end(old, "aborted");
    a.run("begin");
    let first = resubmit(&mut a, &[old])[0].unwrap();
    let pid = b.pid;
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| resubmit(&mut b, &[old])[0].unwrap());
        let mut c = database.connect();
        eventually(seconds(10), "the second call waits", || {
            let sql =
                "select count(*) from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'";
            (c.value::<i64>(sql, &[&pid]) == 1).then_some(())
        });
        a.run("commit");
        waiting.join().unwrap()
    });
    assert_ne!(first, second);
    assert_eq!(a.value::<Uuid>("select resubmitted_as from scylla.failed", &[]), second);
}

/// `failed` shows what went wrong, not that the tries are used up.
#[test]
fn failed_shows_the_cause() {
    let database = database();
    let mut s = database.connect();
    let shown = |s: &mut Session, id: Uuid| -> Value {
        s.value("select error from scylla.failed where id = $1", &[&id])
    };
    let retry = |s: &mut Session, errors: &[Option<&str>]| {
        let options = format!("max_tries => {}, retry_interval => '0'", errors.len());
        let id = s.submit_with("q", &options);
        for error in errors {
            let lease = s.own_one("q");
            let sql = "select scylla.return_task($1, $2, 'retry', error => to_jsonb($3::text))";
            s.execute(sql, &[&lease.id, &lease.token, error]).unwrap();
        }
        assert_eq!(
            s.entry(id)["errors"].as_array().unwrap().last().unwrap()["code"],
            "tries_exhausted"
        );
        id
    };
    let id = retry(&mut s, &[Some("first"), Some("second")]);
    assert_eq!(shown(&mut s, id)["description"], "second");
    let id = retry(&mut s, &[Some("first"), None]);
    assert_eq!(shown(&mut s, id)["description"], "first");
    let id = retry(&mut s, &[None]);
    assert_eq!(shown(&mut s, id)["code"], "tries_exhausted", "there is no other");
    let sql = "select scylla.run_sql('select 1 / 0')";
    let id: Uuid = s.value(sql, &[]);
    eventually(seconds(20), "the command has failed", || (s.status(id) == "aborted").then_some(()));
    assert_eq!(shown(&mut s, id)["code"], "22012");
}
