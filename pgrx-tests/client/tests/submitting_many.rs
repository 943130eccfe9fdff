//! submit_many: a task for each spec, all or none.

use client::*;

/// The specs 0 to n - 1, submitted in one call.
fn submit(s: &mut Session, queue: &str, n: i64, options: &str) -> Vec<Uuid> {
    let sql = format!(
        "select scylla.submit_many($1, (select array_agg(to_jsonb(i) order by i)
             from generate_series(0, $2::bigint - 1) i){options})"
    );
    s.value(&sql, &[&queue, &n])
}

/// The ids come in the order of the specs, which is the order of age.
#[test]
fn tasks_have_the_order_of_their_specs() {
    let database = database();
    let mut s = database.connect();
    let ids = submit(&mut s, "q", 1000, "");
    assert!(ids.iter().all(|id| id.get_version_num() == 7));
    let owned = s.own("w", "q", 2000);
    let (order, specs): (Vec<Uuid>, Vec<i64>) =
        owned.iter().map(|it| (it.id, it.spec.as_i64().expect("a number"))).unzip();
    assert_eq!(order, ids);
    assert_eq!(specs, (0..1000).collect::<Vec<_>>());
}

/// What is given once holds for every task; what is not given is as `submit` has it.
#[test]
fn common_arguments_hold_for_every_task() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create view policy as select action, priority, run_at, max_tries, retry_interval,
             retry_jitter, timeout, post_result, ready, key from scylla.task t order by created",
    );
    let rows = "select coalesce(jsonb_agg(p), '[]') from policy p";
    let all = "action => 'a', priority => 7, run_at => '2100-01-01Z', max_tries => 3,
        retry_interval => '1 min', retry_jitter => '2 s', timeout => '1 h', post_result => true";
    for options in ["", all] {
        let separator = if options.is_empty() { "" } else { ", " };
        submit(&mut s, "q", 2, &format!("{separator}{options}"));
        let many: Value = s.value(rows, &[]);
        s.run("delete from scylla.task");
        let wanted: Vec<Value> = (0..2)
            .map(|_| {
                s.run(&format!("select scylla.submit('q'{separator}{options})"));
                let row: Value = s.value(rows, &[]);
                s.run("delete from scylla.task");
                row[0].clone()
            })
            .collect();
        assert_eq!(many, Value::Array(wanted), "{options}");
    }
}

/// Positional arguments in the order of the contract, and plain literals.
#[test]
fn arguments_may_be_given_by_position() {
    let database = database();
    let mut s = database.connect();
    let id = Uuid::new_v4();
    s.run(&format!(
        "select scylla.submit_many('q', '{{1,\"[2]\"}}', 'a', 5, null, 3, '0', '0', '20 s', true,
             '{{{id},null}}', '{{k,null}}')"
    ));
    let entry = s.entry(id);
    let seen = ["action", "priority", "max_tries", "key", "spec"].map(|name| entry[name].clone());
    assert_eq!(seen, [json!("a"), json!(5), json!(3), json!("k"), json!(1)]);
}

/// A null among the ids is generated, a null among the keys is no key.
#[test]
fn ids_and_keys_belong_to_the_specs() {
    let database = database();
    let mut s = database.connect();
    let given = Uuid::new_v4();
    let sql = "select scylla.submit_many('q', '{1,2,3}', ids => $1, keys => $2)";
    let (ids, keys) = (vec![None, Some(given), None], vec![Some("a"), None, Some("b")]);
    let new: Vec<Uuid> = s.value(sql, &[&ids, &keys]);
    assert_eq!(new[1], given);
    let mut key = |at: usize| s.entry(new[at])["key"].clone();
    assert_eq!([key(0), key(1), key(2)], [json!("a"), Value::Null, json!("b")]);
    assert_eq!(s.own("w", "q", 9).iter().map(|it| it.id).collect::<Vec<_>>(), new);
}

/// The one that is taken is named, and nothing is inserted.
#[test]
fn duplicate_raises_and_nothing_is_inserted() {
    let database = database();
    let mut s = database.connect();
    let (live, settled) = (s.submit("q"), s.submit("q"));
    s.cancel(settled);
    s.run("select scylla.submit('q', key => 'taken')");
    let before = s.count("select count(*) from scylla.tasks");
    let sql = "select scylla.submit_many('q', '{1,2,3}', ids => $1, keys => $2)";
    let none: [Option<Uuid>; 3] = [None; 3];
    let (id, twice) = (Uuid::new_v4(), Uuid::new_v4());
    let cases = [
        ([None, Some(live), None], [None; 3], "task_pkey", 2),
        ([None, None, Some(settled)], [None; 3], "task_pkey", 3),
        ([Some(twice), None, Some(twice)], [None; 3], "task_pkey", 3),
        (none, [None, Some("taken"), None], "task_key", 2),
        (none, [Some("k"), None, Some("k")], "task_key", 3),
        ([Some(id), None, None], [Some("k"), Some("taken"), None], "task_key", 2),
    ];
    for (ids, keys, constraint, element) in cases {
        let refusal = s.refusal(sql, &[&ids.to_vec(), &keys.to_vec()]);
        assert_eq!(refusal.code().code(), "23505", "{refusal}");
        assert_eq!(refusal.constraint(), Some(constraint), "{refusal}");
        let detail = refusal.detail().unwrap_or_default();
        assert!(detail.contains(&format!("element {element} of the array")), "{detail}");
        assert_eq!(s.count("select count(*) from scylla.tasks"), before);
    }
    assert_eq!(s.own("w", "q", 9).len(), 2, "the live ones");
}

/// No spec, no task: neither of an empty array nor of none, as `array_agg` over no row gives.
#[test]
fn no_specs_are_no_tasks() {
    let database = database();
    let mut s = database.connect();
    for specs in ["'{}'", "null", "(select array_agg(spec) from scylla.tasks)"] {
        for options in ["", ", ids => '{}', keys => '{}'", ", ids => null, keys => null"] {
            let sql = format!("select scylla.submit_many('q', {specs}{options})::text");
            assert_eq!(s.text(&sql), "{}", "{sql}");
        }
    }
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
}

/// I2: ready at the commit, and nothing is left of what rolled back.
#[test]
fn tasks_are_offered_at_the_commit() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    for (end, tasks) in [("rollback", 0), ("commit", 300)] {
        s.run("begin");
        submit(&mut s, "q", 300, "");
        assert_eq!(other.own("w", "q", 999).len(), 0);
        s.run(end);
        assert_eq!(other.own("w", "q", 999).len(), tasks, "{end}");
    }
}

/// As many as an array may have.
#[test]
fn hundred_thousand_tasks_in_one_call() {
    let database = database();
    let mut s = database.connect();
    assert_eq!(submit(&mut s, "q", 100_000, "").len(), 100_000);
    let sql = "select count(*), bool_and(spec::int = ordinality - 1)
        from scylla.own_tasks('w', 'q', 100000) with ordinality";
    let row = s.query_one(sql, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, Option<bool>>(1)), (100_000, Some(true)));
}
