//! The board has where a task's row is, so that owning and returning need no index. The row may
//! have moved, and its place may be another row's or none.

use client::*;

/// How often the primary key's index was searched.
fn searches(s: &mut Session) -> i64 {
    s.run("select pg_stat_force_next_flush()");
    s.count(
        "select idx_scan from pg_stat_user_indexes where indexrelid = 'scylla.task_pkey'::regclass",
    )
}

/// Submits so many tasks, whose specs are their numbers.
fn submit(s: &mut Session, queue: &str, n: i64) -> Vec<Uuid> {
    let sql = "select scylla.submit_many($1, array_agg(to_jsonb(n) order by n)) from generate_series(1, $2::bigint) n";
    s.value(sql, &[&queue, &n])
}

fn return_all(s: &mut Session, leases: &[Lease]) -> Vec<Option<String>> {
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = leases.iter().map(|it| (it.id, it.token)).unzip();
    s.value("select scylla.return_tasks($1, $2)", &[&ids, &tokens])
}

#[test]
fn rows_are_found_without_the_index() {
    let database = database();
    let mut s = database.connect();
    s.own("w", "the scheduler has been here", 1);
    submit(&mut s, "q", 300);
    let before = searches(&mut s);
    let leases = s.own("w", "q", 200);
    assert_eq!(return_all(&mut s, &leases).iter().flatten().count(), 200);
    let one = s.own_one("q");
    s.complete(&one);
    assert_eq!(searches(&mut s) - before, 0, "as they were submitted");
    // now the board has only what it reads from the table
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    submit(&mut s, "q", 300);
    drop(s);
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    let first = s.own("w", "q", 1);
    let before = searches(&mut s);
    let leases = s.own("w", "q", 200);
    assert_eq!(return_all(&mut s, &leases).iter().flatten().count(), 200);
    assert_eq!(searches(&mut s) - before, 0, "as they were read");
    assert_eq!(first.len(), 1);
    server.remove();
}

/// What moves rows, or gives their places to others, or takes the places away.
const CHANGES: [&str; 7] = [
    "select 1",
    "update scylla.task set num_failures = num_failures + 1",
    "vacuum full scylla.task",
    "update scylla.task set num_failures = 0 where queue = 'q'; cluster scylla.task using task_pkey",
    "update scylla.task set num_failures = num_failures + 1; vacuum scylla.task;
     update scylla.task set num_failures = num_failures + 1; vacuum scylla.task;
     select scylla.submit_many('others', array_agg('7'::jsonb)) from generate_series(1, 3000)",
    "select scylla.cancel_tasks(array(select id from scylla.task where queue = 'others'));
     update scylla.task set created = created, queue = queue || ''; vacuum full scylla.task",
    "create table copy as select * from scylla.task; truncate scylla.task;
     insert into scylla.task select * from copy order by random(); drop table copy",
];

#[test]
fn rows_that_moved_are_found() {
    let database = database();
    let mut s = database.connect();
    let mut admin = database.connect();
    for change in CHANGES {
        submit(&mut s, "others", 1000);
        let ids = submit(&mut s, "q", 1000);
        let number = |id: Uuid| ids.iter().position(|it| *it == id).map(|at| json!(at + 1));
        let mut leases = s.own("w", "q", 500);
        for statement in change.split(';') {
            admin.run(statement);
        }
        leases.extend(s.own("w", "q", 1000));
        assert_eq!(leases.len(), 1000, "{change}");
        for lease in &leases {
            assert_eq!(Some(&lease.spec), number(lease.id).as_ref(), "{change}");
        }
        let answers = return_all(&mut s, &leases);
        assert_eq!(answers.iter().flatten().count(), 1000, "{change}");
        for (id, spec) in s
            .query("select id, spec from scylla.finished where queue = 'q'", &[])
            .expect("the settled tasks")
            .iter()
            .map(|row| (row.get::<_, Uuid>(0), row.get::<_, Value>(1)))
        {
            assert_eq!(Some(spec), number(id), "{change}");
        }
        assert_eq!(
            s.count("select count(*) from scylla.finished where queue = 'q'"),
            1000,
            "{change}"
        );
        assert_eq!(s.count("select count(*) from scylla.task where queue = 'q'"), 0, "{change}");
        admin.run("delete from scylla.finished");
    }
    Server::shared().assert_log_is_clean();
}

/// I5: tasks whose rows are gone are neither owned nor returned, though their places have other
/// rows.
#[test]
fn rows_that_are_gone_are_not_found() {
    let database = database();
    let mut s = database.connect();
    for change in [
        "truncate scylla.task",
        "delete from scylla.task",
        "delete from scylla.task; vacuum scylla.task;
         select scylla.submit_many('others', array_agg('7'::jsonb)) from generate_series(1, 1000)",
    ] {
        submit(&mut s, "q", 300);
        let leases = s.own("w", "q", 100);
        for statement in change.split(';') {
            s.run(statement);
        }
        assert!(return_all(&mut s, &leases).iter().all(Option::is_none), "{change}");
        assert!(s.own("w", "q", 300).is_empty(), "{change}");
        assert_eq!(s.count("select count(*) from scylla.finished"), 0, "{change}");
        s.run("truncate scylla.task; select scylla.refresh()");
    }
    Server::shared().assert_log_is_clean();
}

/// A transaction finds what it wrote itself, as it is now.
#[test]
fn transaction_finds_its_own_row() {
    let database = database();
    let mut s = database.connect();
    let id = submit(&mut s, "q", 1)[0];
    let lease = s.own_one("q");
    s.run("begin; update scylla.task set spec = '\"changed\"'");
    s.complete(&lease);
    s.run("commit");
    let spec: Value = s.value("select spec from scylla.finished where id = $1", &[&id]);
    assert_eq!(spec, json!("changed"));
}
