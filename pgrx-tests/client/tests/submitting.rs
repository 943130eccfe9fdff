//! The properties of a submitted task, singly and in batches.

use client::*;
use std::collections::HashSet;

/// B3: a given id is kept, and a generated one is a UUIDv7. An existing id is refused, and its row
/// is unchanged.
#[test]
fn id_is_the_callers_or_a_new_one() {
    let database = database();
    let mut s = database.connect();
    let generated: Vec<Uuid> = (0..50).map(|_| s.submit("q")).collect();
    assert!(generated.iter().all(|id| id.get_version_num() == 7), "{generated:?}");
    assert_eq!(generated.iter().collect::<HashSet<_>>().len(), 50);
    let id = Uuid::new_v4();
    let sql = "select scylla.submit('q', $2, id => $1)";
    assert_eq!(s.value::<Uuid>(sql, &[&id, &json!({"n": 1})]), id);
    let before = s.entry(id);
    for _ in 0..2 {
        assert_eq!(s.refusal(sql, &[&id, &json!({"n": 2})]).code().code(), "23505");
        assert_eq!(s.entry(id), before);
    }
    assert_eq!(s.own("w", "q", 100).len(), 51);
}

/// When two sessions submit the same id at once, exactly one gets 23505.
#[test]
fn one_of_two_equal_ids_wins() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let sql = "select scylla.submit('q', id => $1)";
    for end in ["commit", "rollback"] {
        let id = Uuid::new_v4();
        a.run("begin");
        a.value::<Uuid>(sql, &[&id]);
        let answer = std::thread::scope(|scope| {
            let second = scope.spawn(|| b.try_value::<Uuid>(sql, &[&id]));
            sleep(milliseconds(100));
            a.run(end);
            second.join().unwrap()
        });
        match end {
            "commit" => assert_eq!(failure(answer, "twice").code().code(), "23505"),
            _ => assert_eq!(answer.expect("the first was rolled back"), id),
        }
        assert_eq!(a.own("w", "q", 5).len(), 1, "{end}");
    }
}

/// Arguments may be passed by position, in the order of the contract.
#[test]
fn arguments_may_be_given_by_position() {
    let database = database();
    let mut s = database.connect();
    let id = Uuid::new_v4();
    s.run(&format!("select scylla.submit('q', '{{}}', 'a', 5, '{id}', null, 'error', null, null, 'abort', 3, '0', '0', '20 s', true)"));
    let entry = s.entry(id);
    assert_eq!(
        (&entry["action"], &entry["priority"], &entry["max_tries"]),
        (&json!("a"), &json!(5), &json!(3))
    );
    let token: Uuid =
        s.value("select token from scylla.own_tasks('w', 'q', 1, '{a}', '30 s')", &[]);
    s.run(&format!("select scylla.extend('{id}', '{token}', '5 s', 0.5)"));
    s.run(&format!(
        "select scylla.return_task('{id}', '{token}', 'completed', '{{\"n\": 1}}', null, null)"
    ));
    assert_eq!(s.entry(id)["result"], json!({"n": 1}));
}

/// B3, B4, B5: the result has one row for each element, in order; the first of two equal ids is
/// inserted.
#[test]
fn batch_reports_inserted_duplicate_and_invalid() {
    let database = database();
    let mut s = database.connect();
    let (taken, twice) = (s.submit("old"), Uuid::new_v4());
    let before = s.entry(taken);
    let tasks = json!([
        {"queue": "q", "spec": {"n": 0}, "action": "a", "priority": 4_294_967_295_i64},
        {"queue": "q", "id": taken},
        {"queue": "q", "id": twice, "spec": {"n": 2}},
        {"queue": "q", "id": twice, "spec": {"n": 3}},
        {"queue": "", "spec": {}},
        {"queue": "q", "priority": -1},
        {"queue": "q", "colour": "red"},
        "text",
        {"queue": "q", "max_tries": 3, "timeout": "3 s", "spec": {"n": 8}},
    ]);
    let sql = "select id, outcome, error from scylla.submit_tasks($1, atomic => false)";
    let rows = s.query(sql, &[&tasks]).unwrap();
    let outcomes: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
    let expected = [
        "inserted",
        "duplicate",
        "inserted",
        "duplicate",
        "invalid",
        "invalid",
        "invalid",
        "invalid",
        "inserted",
    ];
    assert_eq!(outcomes, expected);
    assert!(rows.iter().all(
        |row| (row.get::<_, &str>(1) == "inserted") == row.get::<_, Option<&str>>(2).is_none()
    ));
    assert_eq!(rows[2].get::<_, Uuid>(0), twice);
    assert_eq!(s.entry(twice)["spec"], json!({"n": 2}));
    assert_eq!(s.entry(taken), before, "the existing row is untouched");
    let owned: Vec<Value> =
        s.own("w", "q", 10).into_iter().map(|lease| lease.spec["n"].clone()).collect();
    assert_eq!((owned.len(), &owned[0]), (3, &json!(0)));
}

/// B6: an atomic batch inserts all tasks or none.
#[test]
fn atomic_batch_inserts_all_or_none() {
    let database = database();
    let mut s = database.connect();
    let taken = s.submit("q");
    for (bad, expected) in [
        (json!({"queue": "q", "id": taken}), "23505"),
        (json!({"queue": "q", "priority": -1}), "22023"),
        (json!({"queue": "q", "colour": 1}), "22023"),
        (json!({"queue": "q", "spec": null}), "22023"),
    ] {
        let tasks = json!([{"queue": "q"}, {"queue": "q"}, bad, {"queue": "q"}]);
        let complaint = s.refusal("select * from scylla.submit_tasks($1)", &[&tasks]);
        assert_eq!(complaint.code().code(), expected, "{tasks}");
        assert_eq!(s.tasks("ready"), 1);
    }
    assert_eq!(s.own("w", "q", 10).len(), 1);
}

/// B130: `created` is later than of all tasks before, however they are submitted and by how many
/// sessions at once, and follows the order of an array.
#[test]
fn tasks_are_created_one_after_the_other() {
    let database = database();
    let load = |n: i32| {
        let mut s = database.connect();
        let mut last = String::new();
        let created = |s: &mut Session, ids: &[Uuid]| -> Vec<String> {
            let sql = "select created::text from unnest($1::uuid[]) with ordinality as i (id, n)
                       join scylla.task t using (id) order by n";
            s.query(sql, &[&ids]).expect("rows").iter().map(|row| row.get(0)).collect()
        };
        for round in 0..30 {
            let ids: Vec<Uuid> = match (n + round) % 4 {
                0 => vec![s.submit("q")],
                1 => vec![s.submit_with("q", "run_at => now() + interval '1 h', group_key => 'g'")],
                2 => s.submit_many("q", 20),
                _ => {
                    let tasks: Vec<Value> = (0..20).map(|_| json!({"queue": "q"})).collect();
                    let sql = "select id from scylla.submit_tasks($1)";
                    let rows = s.query(sql, &[&Value::from(tasks)]).expect("rows");
                    rows.iter().map(|row| row.get(0)).collect()
                }
            };
            for next in created(&mut s, &ids) {
                assert!(next > last, "{next} after {last}");
                last = next;
            }
        }
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|n| _ = scope.spawn(move || load(n)));
    });
    let mut s = database.connect();
    let ahead = "select count(*) from scylla.task where created > clock_timestamp()";
    assert_eq!(s.count(ahead), 0, "the clock's time");
    let twice = "select count(*) - count(distinct created) from scylla.task";
    assert_eq!(s.count(twice), 0);
}

/// B130: so it is after a crash, though the clock was set back by an hour meanwhile. A time to run
/// at counts by the clock.
#[test]
fn tasks_are_created_later_than_before_a_crash() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let newest = "select extract(epoch from max(created))::float8 from scylla.task";
    let by_clock: f64 = s.value(newest, &[]);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let after: f64 = s.value(newest, &[]);
    assert!(after > by_clock && after - by_clock < 60.0, "{after} after {by_clock}");
    let distinct = "select count(distinct created) from scylla.task";
    assert_eq!(s.count(distinct), 6);

    // As if the clock had been an hour ahead of what it is now.
    s.run(
        "select setval('scylla.created_until', last_value + 3600000000) from scylla.created_until",
    );
    server.kill();
    server.start_again();
    let mut s = database.connect();
    let ids = s.submit_many("q", 3);
    let later = s.submit_with("q", "run_at => clock_timestamp() + interval '10 s'");
    assert_eq!((s.status(ids[0]), s.status(later)), ("ready".into(), "waiting".into()));
    let next: f64 = s.value(newest, &[]);
    assert!(next - after > 3_590.0, "{next} after {after}");
    let due: Vec<Uuid> = s.own("w", "q", 9).iter().map(|lease| lease.id).collect();
    assert_eq!((due.len(), &due[6..]), (9, &ids[..]), "in the order of their submission");
}
