//! Plans are kept for the life of a connection, however the tables grow.

use client::*;

/// Calls each function that changes tasks once, on one connection.
fn every_move(s: &mut Session) {
    let given = Uuid::new_v4();
    s.value::<Uuid>("select scylla.submit('moves', id => $1)", &[&given]);
    s.submit_many("moves", 4);
    let leases = s.own("w", "moves", 5);
    assert_eq!(leases.len(), 5);
    for (lease, outcome) in leases.iter().zip(["completed", "yield", "retry", "completed"]) {
        s.return_task(lease, outcome).expect("a valid lease");
    }
    s.cancel(leases[4].id);
    let mut s2 = s.own("w", "moves", 5);
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = s2.drain(..).map(|it| (it.id, it.token)).unzip();
    let results: Vec<String> = s.value(
        "select scylla.return_tasks($1, $2, results => array_fill('1'::jsonb, array[2]))",
        &[&ids, &tokens],
    );
    assert_eq!(results, ["completed", "completed"]);
    s.status(given);
}

/// How many rows and index entries all sessions have read from the tables of tasks.
fn read(s: &mut Session) -> i64 {
    s.run("select pg_stat_force_next_flush()");
    s.count(
        "select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables
             where schemaname = 'scylla')::bigint
           + (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'scylla')::bigint",
    )
}

/// I6: a plan that was made while the tables were empty does not scan them once they are full.
#[test]
fn plan_made_on_an_empty_table_does_not_stay_a_scan() {
    let database = database();
    let mut s = database.connect();
    every_move(&mut s);
    // The planner's statistics say now that the tables are empty.
    s.run("vacuum analyze scylla.task");
    s.run("vacuum analyze scylla.finished");
    every_move(&mut s);
    database.connect().run(
        "insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, spec)
         select gen_random_uuid(), 'full', '', 0, true, false, now(), now(), '{}'
         from generate_series(1, 300000)",
    );
    let before = read(&mut s);
    every_move(&mut s);
    let read = read(&mut s) - before;
    assert!(read < 2_000, "{read} rows and entries were read for eleven calls");
}
