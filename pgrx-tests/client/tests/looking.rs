//! The view and `task()` show each task exactly once while tasks change.

use client::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `look` on its own connection as long as `work` lasts.
fn while_working(database: &Database, look: impl Fn(&mut Session) + Sync, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lookers = [(); 2].map(|()| {
            let (mut s, done, look) = (database.connect(), &done, &look);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    look(&mut s);
                }
            })
        });
        work();
        done.store(true, Ordering::Relaxed);
        for looker in lookers {
            looker.join().expect("every query returns what it should");
        }
    });
}

/// The view shows each task once while leases begin, end and settle.
#[test]
fn view_shows_each_task_once_while_tasks_move() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 60);
    let look = |s: &mut Session| {
        let row =
            s.query_one("select count(*), count(distinct id) from scylla.tasks", &[]).unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (60, 60));
    };
    while_working(&database, look, || {
        for round in 0..150 {
            for lease in s.own_with("w", "q", 5, "timeout => '40 ms'") {
                // every third one is left to expire
                match round % 3 {
                    0 => assert_eq!(s.return_task(&lease, "yield").unwrap(), "ready"),
                    1 => assert!(s.extend(&lease)),
                    _ if round > 130 => s.complete(&lease),
                    _ => {}
                }
            }
        }
    });
}

/// A statement that was told that a task is not owned does not find it among the owned ones later:
/// PostgreSQL may ask in either order.
#[test]
fn a_task_is_owned_or_not_for_a_whole_statement() {
    let database = database();
    let mut s = database.connect();
    let asked = |tasks: i32| {
        let mut s = database.connect();
        s.submit_many("q", tasks);
        let ids = s.text("select string_agg(quote_literal(id), ',') from scylla.task");
        let sql = format!(
            "with asked as materialized (
                select count(*) filter (where scylla._is_owned(id::uuid)) as owned
                from unnest(array[{ids}]) id
            ), waited as materialized (select a.owned, pg_sleep(1)::text from asked a)
            select w.owned, coalesce(sum(cardinality(o.tasks)), 0)::bigint
            from waited w left join lateral scylla._owned(true) o on w.owned is not null
            group by 1"
        );
        let row = s.query_one(&sql, &[]).unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    // With many, all that are owned are read before the others are.
    for tasks in [1, 50, 200] {
        std::thread::scope(|scope| {
            let looker = scope.spawn(|| asked(tasks));
            std::thread::sleep(milliseconds(600));
            assert_eq!(s.own("w", "q", 300).len(), tasks as usize);
            assert_eq!(looker.join().unwrap(), (0, 0), "{tasks}");
        });
        s.run("select scylla.cancel(id) from scylla.task");
    }
}

/// `task()` finds a task before, while and after it is settled.
#[test]
fn entry_is_always_found_while_its_task_settles() {
    let database = database();
    let mut s = database.connect();
    let ids = s.submit_many("q", 400);
    let look = |s: &mut Session| {
        for id in ids.chunks(40).map(|chunk| chunk[0]) {
            let entry = s.entry(id);
            let status = entry["status"].as_str().expect("a status").to_owned();
            let settled = ["completed", "aborted", "cancelled"].contains(&status.as_str());
            assert!(settled || ["ready", "running"].contains(&status.as_str()), "{status}");
            // A task that is being owned has its owner while it is ready.
            assert!(entry["owner"].is_string() || status == "ready", "{entry}");
        }
    };
    while_working(&database, look, || {
        for (n, lease) in s.own("w", "q", 400).into_iter().enumerate() {
            let outcome = ["completed", "yield", "aborted"][n % 3];
            s.return_task(&lease, outcome).unwrap();
        }
    });
    assert_eq!(s.tasks("ready"), 133);
}

/// The view and the entry have the fields of the contract, in its order.
#[test]
fn view_and_entry_have_the_fields_of_the_contract() {
    let database = database();
    let mut s = database.connect();
    let fields = "queue, action, key, spec, priority, status, progress, created, updated, run_at, deadline, \
                  owner, tries, max_tries, num_failures, after, errors, result, history, group_key, \
                  resubmitted_from";
    let columns = s.text(
        "select string_agg(attname, ', ' order by attnum) from pg_attribute
         where attrelid = 'scylla.tasks'::regclass and attnum > 0",
    );
    assert!(columns.starts_with(&format!("id, {fields}")), "{columns}");
    let id = s.submit("q");
    for _ in 0..2 {
        let entry = s.entry(id);
        let missing: Vec<&str> =
            fields.split(", ").chain(["rn"]).filter(|f| entry.get(f).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?} in {entry}");
        let lease = s.own("w", "q", 1).pop();
        lease.iter().for_each(|lease| s.complete(lease));
    }
}
