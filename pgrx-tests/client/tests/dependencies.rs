//! Tasks that depend on others: when they become ready, when they are aborted, and which edges are
//! refused.

use client::*;

/// The statuses of some tasks, in order.
fn statuses(s: &mut Session, ids: &[Uuid]) -> Vec<String> {
    ids.iter().map(|id| s.status(*id)).collect()
}

/// Owns and completes each ready task of a queue.
fn run_all(s: &mut Session, queue: &str) -> Vec<Uuid> {
    let leases = s.own("w", queue, 100);
    leases.iter().for_each(|lease| s.complete(lease));
    leases.iter().map(|lease| lease.id).collect()
}

fn sorted(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    ids.sort();
    ids
}

/// B63: a task is owned only after each of its predecessors has settled.
#[test]
fn dependent_is_owned_only_after_every_predecessor_settled() {
    let database = database();
    let mut s = database.connect();
    let (a, b) = (s.submit("q"), s.submit("other"));
    let dependent = s.submit_after("q", &[a, b], "priority => 9");
    assert_eq!(s.status(dependent), "waiting");
    assert_eq!(s.try_own_task(dependent).map_err(|e| code(&e)).unwrap_err(), "55000");
    assert_eq!(run_all(&mut s, "q"), [a]);
    assert!(s.own("w", "q", 9).is_empty(), "one of two is not enough");
    assert_eq!(run_all(&mut s, "other"), [b]);
    let lease = s.own_one("q");
    assert_eq!((lease.id, lease.num_failures, lease.tries), (dependent, 0, 1));
    s.complete(&lease);
    assert_eq!(s.entry(dependent)["after"], json!([a, b]));
    let late = s.submit_after("q", &[a, b, Uuid::new_v4()], "priority => 1");
    assert_eq!(s.status(late), "ready", "settled and absent ones are not waited for");
}

/// B65: each end that settles a task signals each dependent once; no other end signals a dependent.
#[test]
fn each_settling_signals_each_dependent_once() {
    let database = database();
    let mut s = database.connect();
    let (a, b) = (s.submit("a"), s.submit("b"));
    let dependents = [0; 3].map(|_| s.submit_after("q", &[a, a, b], "on_failure => 'run'"));
    for outcome in ["yield", "retry"] {
        s.end(a, outcome);
    }
    s.own_one_with("a", "timeout => '20 ms'");
    eventually(seconds(5), "the lease expires", || (s.status(a) == "ready").then_some(()));
    assert!(s.own("w", "q", 9).is_empty(), "a has not settled");
    let lease = s.own_one("a");
    s.complete(&lease);
    assert_eq!(s.not_returned(&lease).code().code(), "55000");
    assert!(!s.cancel(a));
    assert_eq!(s.delete(&[a]), 1, "a settled task is deleted, and signals no dependent again");
    assert!(s.own("w", "q", 9).is_empty(), "b has not settled");
    s.end(b, "completed");
    assert_eq!(sorted(run_all(&mut s, "q")), sorted(dependents.to_vec()));
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
}

/// B66: a dependent that runs on failure counts its failed predecessors.
#[test]
fn failed_predecessors_are_counted() {
    let database = database();
    let mut s = database.connect();
    let early = s.submit("q");
    s.cancel(early);
    let [done, aborted, cancelled, late] = [0; 4].map(|_| s.submit("q"));
    let exhausted = s.submit_with("q", "max_tries => 1");
    let expired = s.submit_with("expiring", "max_tries => 1");
    let all = [early, done, aborted, cancelled, exhausted, expired, Uuid::new_v4(), early];
    let dependent = s.submit_after("f", &all, "on_failure => 'run'");
    assert_eq!(s.link(late, dependent).unwrap(), 1);
    assert_eq!(s.link(early, dependent).unwrap(), 0);
    s.end(done, "completed");
    s.end(aborted, "aborted");
    s.cancel(cancelled);
    s.end(exhausted, "retry");
    s.own_one_with("expiring", "timeout => '20 ms'");
    s.end(late, "aborted");
    eventually(seconds(5), "all have settled", || (s.status(dependent) == "ready").then_some(()));
    assert_eq!(s.own_one("f").num_failures, 6, "each once");
    assert_eq!(s.entry(dependent)["num_failures"], json!(6));
}

/// B67: an abort aborts all successors through a chain, a fork and a join, up to a task that runs
/// on failure.
#[test]
fn abort_aborts_all_successors() {
    let database = database();
    let mut s = database.connect();
    for how in ["aborted", "cancelled", "exhausted"] {
        let root = s.submit_with("root", "max_tries => 1");
        let bystander = s.submit("root");
        let (left, right) = (s.submit_after("q", &[root], "action => ''"), s.submit("other"));
        let join = s.submit_after("q", &[left, right, bystander], "action => ''");
        let leaf = s.submit_after("q", &[join], "post_result => true");
        let survivor = s.submit_after("q", &[join, leaf], "on_failure => 'run'");
        let next = s.submit_after("q", &[survivor], "action => ''");
        match how {
            "aborted" => s.end(root, "aborted"),
            "cancelled" => assert!(s.cancel(root)),
            _ => s.end(root, "retry"),
        }
        assert_eq!(statuses(&mut s, &[left, join, leaf]), ["aborted"; 3]);
        assert_eq!(
            statuses(&mut s, &[bystander, right, survivor, next]),
            ["ready", "ready", "ready", "waiting"]
        );
        for (task, cause) in [(left, root), (join, left), (leaf, join)] {
            let errors = &s.entry(task)["errors"];
            assert_eq!(errors.as_array().unwrap().len(), 1);
            assert_eq!(errors[0]["code"], "dependency_aborted");
            assert_eq!(errors[0]["args"], json!({"task": cause}));
            assert!(errors[0]["description"].is_string());
        }
        assert_eq!(s.entry(survivor)["num_failures"], json!(2));
        assert_eq!(run_all(&mut s, "q"), [survivor]);
        assert_eq!(run_all(&mut s, "q"), [next]);
        s.end(bystander, "completed");
        s.end(right, "completed");
        assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
    }
    // A task that is submitted after a failed predecessor is aborted at once.
    let failed = s.submit("q");
    s.end(failed, "aborted");
    let late = s.submit_after("q", &[failed], "action => ''");
    assert_eq!(s.status(late), "aborted");
    assert!(s.own("w", "q", 9).is_empty());
}

/// B68: chain, group, chord and diamond run in their order, each submitted in one batch, in
/// reverse.
#[test]
fn structures_run_in_their_order() {
    let database = database();
    let mut s = database.connect();
    type Waves = &'static [&'static [usize]];
    let structures: [(&str, Waves, Waves); 4] = [
        ("chain", &[&[], &[0], &[1]], &[&[0], &[1], &[2]]),
        ("group", &[&[], &[0], &[0], &[0], &[0]], &[&[0], &[1, 2, 3, 4]]),
        ("chord", &[&[], &[0], &[0], &[0], &[0], &[1, 2, 3, 4]], &[&[0], &[1, 2, 3, 4], &[5]]),
        ("diamond", &[&[], &[0], &[0], &[1, 2]], &[&[0], &[1, 2], &[3]]),
    ];
    for (queue, after, waves) in structures {
        let ids: Vec<Uuid> = after.iter().map(|_| Uuid::new_v4()).collect();
        let tasks: Vec<Value> = (0..ids.len())
            .rev()
            .map(|n| {
                let after: Vec<Uuid> = after[n].iter().map(|m| ids[*m]).collect();
                json!({"queue": queue, "id": ids[n], "after": after})
            })
            .collect();
        s.execute("select * from scylla.submit_tasks($1)", &[&json!(tasks)]).unwrap();
        for wave in waves {
            let expected = wave.iter().map(|n| ids[*n]).collect();
            assert_eq!(sorted(run_all(&mut s, queue)), sorted(expected), "{queue}: {wave:?}");
        }
        assert!(s.own("w", queue, 9).is_empty());
    }
}

/// B69: a call adds all edges or none. A completed predecessor counts as settled; a failed one
/// counts as failed.
#[test]
fn added_dependencies_are_atomic() {
    let database = database();
    let mut s = database.connect();
    let [a, b, c, running, done] = [0; 5].map(|_| s.submit("q"));
    s.end(done, "completed");
    s.try_own_task(running).unwrap();
    for (bad, state) in [
        ((b, running), "55000"),
        ((a, done), "55000"),
        ((a, Uuid::new_v4()), "P0002"),
        ((b, b), "22023"),
    ] {
        let refused = s.link_all(&[(a, b), bad, (b, c)]);
        assert_eq!(refused.map_err(|e| code(&e)).unwrap_err(), state);
        assert_eq!(statuses(&mut s, &[a, b, c]), ["ready"; 3], "{state}: nothing is half done");
    }
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
    for end in ["rollback", "rollback to savepoint s; commit"] {
        s.run("begin; savepoint s");
        assert_eq!(s.link_all(&[(a, b), (b, c)]).unwrap(), 2);
        s.run(end);
        let leases = s.own("w", "q", 9);
        assert_eq!(leases.len(), 3, "{end}: all are ready again");
        leases.iter().for_each(|lease| assert_eq!(s.return_task(lease, "yield").unwrap(), "ready"));
    }
    let [a, b, c] = [0; 3].map(|_| s.submit("p"));
    // known, settled and absent predecessors; the same edge twice, and once more
    assert_eq!(s.link_all(&[(a, b), (a, b), (done, b), (Uuid::new_v4(), b), (b, c)]).unwrap(), 2);
    assert_eq!(s.link(a, b).unwrap(), 0);
    assert_eq!(s.link(done, a).unwrap(), 0);
    for id in [a, b, c] {
        assert_eq!(run_all(&mut s, "p"), [id]);
    }
    let [failed, victim, sturdy] = [0; 3].map(|_| s.submit("r"));
    let after = s.submit_after("r", &[victim], "action => ''");
    let runner = s.submit_after("r", &[sturdy], "on_failure => 'run'");
    s.end(failed, "aborted");
    assert_eq!(s.link(failed, victim).unwrap(), 0);
    assert_eq!(statuses(&mut s, &[victim, after]), ["aborted"; 2]);
    assert_eq!((s.link(failed, runner).unwrap(), s.link(failed, runner).unwrap()), (0, 0));
    assert_eq!((s.status(runner), &s.entry(runner)["num_failures"]), ("waiting".into(), &json!(1)));
    assert_eq!(run_all(&mut s, "r"), [sturdy]);
    assert_eq!(run_all(&mut s, "r"), [runner]);
}

/// B70: a call that would make a cycle is refused.
#[test]
fn cycles_are_refused() {
    let database = database();
    let mut s = database.connect();
    for length in [1, 2, 3, 50] {
        let ids: Vec<Uuid> = (0..length).map(|_| Uuid::new_v4()).collect();
        let outside = Uuid::new_v4();
        let mut tasks: Vec<Value> = (0..length)
            .map(|n| json!({"queue": "q", "id": ids[n], "after": [ids[(n + 1) % length]]}))
            .collect();
        tasks.push(json!({"queue": "free", "id": outside}));
        let complaint = s.refusal("select * from scylla.submit_tasks($1)", &[&json!(tasks)]);
        assert_eq!(complaint.code().code(), "22023", "{length}");
        assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'free'"), 0);
        let rows = s
            .query("select outcome from scylla.submit_tasks($1, false)", &[&json!(tasks)])
            .unwrap();
        let outcomes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let (last, cycle) = outcomes.split_last().unwrap();
        assert!(cycle.iter().all(|it| it == "invalid") && last == "inserted", "{outcomes:?}");
        s.end(outside, "completed");
        s.delete(&[outside]);
        // The same by adding edges: a chain accepts all but the last.
        let ids: Vec<Uuid> = ids.iter().map(|_| s.submit("q")).collect();
        let chain: Vec<(Uuid, Uuid)> = ids.windows(2).map(|it| (it[0], it[1])).collect();
        assert_eq!(s.link_all(&chain).unwrap(), length as i32 - 1);
        let last = (ids[length - 1], ids[0]);
        assert_eq!(s.link(last.0, last.1).map_err(|e| code(&e)).unwrap_err(), "22023");
        assert_eq!(run_all(&mut s, "q"), [ids[0]], "the first is ready still");
        (1..length).for_each(|n| assert_eq!(run_all(&mut s, "q"), [ids[n]]));
    }
    let own = Uuid::new_v4();
    let complaint =
        s.refusal("select scylla.submit('q', id => $1::uuid, after => array[$1::uuid])", &[&own]);
    assert_eq!(complaint.code().code(), "22023");
}

#[test]
fn bad_arguments_are_refused() {
    let database = database();
    let mut s = database.connect();
    let (a, b) = (s.submit("q"), s.submit("q"));
    for (after, run, state) in [
        (vec![Some(a), Some(b)], vec![Some(b)], "22023"),
        (vec![Some(a)], vec![None], "22004"),
        (vec![None], vec![Some(b)], "22004"),
    ] {
        let complaint = s.refusal("select scylla.add_dependencies($1, $2)", &[&after, &run]);
        assert_eq!(complaint.code().code(), state);
    }
    for (sql, state) in [
        ("select scylla.add_dependencies(array[null::uuid], null)", "22004"),
        ("select scylla.delete_tasks(array[null::uuid])", "22004"),
        ("select scylla.submit('q', after => array[null::uuid])", "22004"),
        ("select scylla.submit('q', on_failure => 'maybe')", "22023"),
        ("select scylla.submit('q', on_failure => null)", "22004"),
        ("select scylla.submit_tasks('[{\"queue\": \"q\", \"after\": [null]}]')", "22023"),
        ("select scylla.submit_tasks('[{\"queue\": \"q\", \"after\": [\"x\"]}]')", "22023"),
        ("select scylla.submit_tasks('[{\"queue\": \"q\", \"after\": \"x\"}]')", "22023"),
    ] {
        assert_eq!(s.refused(sql), state, "{sql}");
    }
    assert_eq!(s.count("select scylla.add_dependencies('{}', '{}')::bigint"), 0);
    assert_eq!(s.count("select scylla.add_dependencies(null, null)::bigint"), 0);
    assert_eq!(s.count("select scylla.delete_tasks(null)::bigint"), 0);
    assert_eq!(s.delete(&[]), 0);
    assert_eq!(s.delete(&[Uuid::new_v4()]), 0);
    assert_eq!(run_all(&mut s, "q"), [a, b]);
}

/// I2: a rollback to a savepoint before a return, a cancel or a deletion also undoes its signals.
#[test]
fn rollback_takes_signals_back() {
    let database = database();
    let mut s = database.connect();
    let root = s.submit("root");
    let dependent = s.submit_after("q", &[root], "action => ''");
    let lease = s.own_one_with("root", "timeout => '1 minute'");
    for end in ["rollback", "rollback to savepoint s; commit"] {
        for outcome in ["completed", "aborted"] {
            s.run("begin; savepoint s");
            s.return_task(&lease, outcome).unwrap();
            s.run(end);
        }
        for call in ["cancel($1::uuid)", "delete_tasks(array[$1::uuid])"] {
            s.run("begin; savepoint s");
            s.execute(&format!("select scylla.{call}"), &[&root]).unwrap();
            s.run(end);
        }
        assert_eq!(statuses(&mut s, &[root, dependent]), ["running", "waiting"], "{end}");
        assert!(s.own("w", "q", 9).is_empty(), "{end}");
    }
    s.complete(&lease);
    assert_eq!(run_all(&mut s, "q"), [dependent]);
}
