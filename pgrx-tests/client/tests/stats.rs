//! The views `queues` and `stats` agree with the tables, whatever happened: B11.

use client::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

#[track_caller]
fn agree(s: &mut Session) {
    s.counts_agree(seconds(20));
}

fn totals(s: &mut Session, queue: &str) -> String {
    s.text(&format!(
        "select format('%s %s %s %s %s %s %s %s %s', submitted, owned, completed, aborted, cancelled,
             retried, yielded, expired, fired) from scylla.stats where queue = '{queue}'"
    ))
}

/// The sums of the histograms, in seconds, are those of the tasks that they count, and survive as
/// they do.
#[test]
fn sums_go_with_their_histograms() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let numbers = |s: &mut Session, at: &str| -> (f64, i64) {
        let sql = format!(
            "select {at}_sum, (select sum(n) from unnest({at}) n)::bigint from scylla.stats where queue = 'q'"
        );
        let row = s.query_one(&sql, &[]).expect("a row");
        (row.get(0), row.get(1))
    };
    s.submit_many("q", 3);
    assert_eq!(numbers(&mut s, "ready_to_owned"), (0.0, 0));
    sleep(milliseconds(300));
    let leases = s.own("w", "q", 2);
    let (waited, count) = numbers(&mut s, "ready_to_owned");
    assert_eq!(count, 2);
    assert!((0.6..3.0).contains(&waited), "{waited}");
    sleep(milliseconds(200));
    s.complete(&leases[0]);
    s.return_task(&leases[1], "retry").expect("a lease");
    let (worked, count) = numbers(&mut s, "owned_to_settled");
    assert_eq!(count, 1);
    assert!((0.2..2.0).contains(&worked), "{worked}");
    // The mean lies in the range of the buckets that have something.
    let lower = "select bool_and(ready_to_owned_sum / 2 >= power(2, b - 2) / 1000 or n = 0)
                 from scylla.stats, unnest(ready_to_owned) with ordinality u (n, b)";
    assert!(s.value::<bool>(lower, &[]));
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    assert_eq!(numbers(&mut s, "ready_to_owned").0, waited);
    assert_eq!(numbers(&mut s, "owned_to_settled").0, worked);
    s.run("begin");
    s.own("w", "q", 1);
    s.run("rollback");
    assert_eq!(numbers(&mut s, "ready_to_owned").0, waited);
    s.own("w", "q", 1);
    assert!(numbers(&mut s, "ready_to_owned").0 > waited);
}

#[test]
fn each_kind_of_event_is_counted_with_its_commit() {
    let server = Server::start(&["scylla.retry_interval = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 9);
    assert_eq!(totals(&mut s, "q"), "9 0 0 0 0 0 0 0 0");
    let leases = s.own("w", "q", 6);
    assert_eq!(totals(&mut s, "q"), "9 6 0 0 0 0 0 0 0");
    for (lease, outcome) in leases.iter().zip(["completed", "aborted", "retry", "yield"]) {
        let error = if outcome == "aborted" { ", error => '\"no\"'" } else { "" };
        s.run(&format!(
            "select scylla.return_task('{}', '{}', '{outcome}'{error})",
            lease.id, lease.token
        ));
    }
    assert!(s.cancel(leases[4].id));
    assert_eq!(totals(&mut s, "q"), "9 6 1 1 1 1 1 0 0");
    agree(&mut s);
    s.own_one_with("q", "timeout => '50 ms'");
    eventually(seconds(5), "the lease expires", || {
        totals(&mut s, "q").ends_with("1 0").then_some(())
    });
    s.submit_with("q", "run_at => clock_timestamp() + interval '100 ms'");
    let shown = s.text("select format('%s %s', waiting, ready) from scylla.queues");
    assert_eq!(shown, "1 5");
    eventually(seconds(5), "the task fires", || totals(&mut s, "q").ends_with("1 1").then_some(()));
    agree(&mut s);
    // Undone with its transaction, with its savepoint.
    let before = totals(&mut s, "q");
    s.run("begin; select scylla.submit('q') from generate_series(1, 3); select scylla.own_tasks('w', 'q', 2); rollback");
    s.run("begin; savepoint a; select scylla.submit('q'); rollback to a; savepoint b; select scylla.submit('q'); release b; rollback");
    assert_eq!(totals(&mut s, "q"), before);
    agree(&mut s);
    s.run("begin; select scylla.submit('q'); savepoint a; select scylla.submit('q'); rollback to a; savepoint b; select scylla.submit('q'); release b; select scylla.submit('q'); commit");
    let submitted = before.split(' ').next().unwrap().parse::<i64>().unwrap() + 3;
    assert_eq!(totals(&mut s, "q").split(' ').next().unwrap(), submitted.to_string());
    agree(&mut s);
    server.assert_log_is_clean();
}

#[test]
fn latencies_are_counted_in_powers_of_two() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    sleep(milliseconds(40));
    let leases = s.own("w", "q", 2);
    sleep(milliseconds(40));
    leases.iter().for_each(|lease| s.complete(lease));
    for histogram in ["ready_to_owned", "owned_to_settled"] {
        let found = s.text(&format!(
            "select string_agg(n || ':' || x, ' ' order by n)
             from scylla.stats, unnest({histogram}) with ordinality u (x, n) where x > 0"
        ));
        // 32 to 64 ms is the seventh; a busy machine may take longer.
        let buckets: Vec<(i32, i32)> = found
            .split(' ')
            .map(|it| it.split_once(':').unwrap())
            .map(|(n, x)| (n.parse().unwrap(), x.parse().unwrap()))
            .collect();
        assert_eq!(buckets.iter().map(|it| it.1).sum::<i32>(), 2, "{histogram}: {found}");
        assert!(buckets.iter().all(|it| (7..=16).contains(&it.0)), "{histogram}: {found}");
    }
}

#[test]
fn totals_survive_a_clean_restart_and_a_crash_loses_seconds_at_most() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 7);
    s.own("w", "q", 3).iter().for_each(|lease| s.complete(lease));
    let since = s.text("select since::text from scylla.stats");
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    assert_eq!(totals(&mut s, "q"), "7 3 3 0 0 0 0 0 0");
    assert_eq!(s.text("select since::text from scylla.stats"), since);
    agree(&mut s);
    s.submit_many("q", 5);
    eventually(seconds(20), "the totals are written", || {
        (s.count("select coalesce(sum(events[1]), 0)::bigint from scylla.queue_total") == 12)
            .then_some(())
    });
    // Nothing is counted twice while it is in both places.
    assert_eq!(totals(&mut s, "q"), "12 3 3 0 0 0 0 0 0");
    // The commit of the totals waits for no disk; another one does, for all before it.
    s.run("create table flushed ()");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(totals(&mut s, "q"), "12 3 3 0 0 0 0 0 0");
    agree(&mut s);
}

#[test]
fn no_commit_is_missed_or_counted_twice_while_totals_are_written() {
    let server = Server::start(&[]);
    let database = server.database();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut s, done_) = (database.connect(), &done);
        scope.spawn(move || {
            let mut before = 0;
            while !done_.load(Ordering::Relaxed) {
                let now = s.count("select coalesce(sum(submitted), 0)::bigint from scylla.stats");
                assert!(now >= before, "{now} after {before}");
                before = now;
            }
        });
        let mut s = database.connect();
        let until = std::time::Instant::now() + seconds(12);
        let mut submitted = 0;
        while std::time::Instant::now() < until {
            s.run("select scylla.submit('q')");
            submitted += 1;
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(
            s.count("select sum(submitted)::bigint from scylla.stats"),
            submitted,
            "each submission once"
        );
    });
}

/// One random call; errors are part of it.
fn act(s: &mut Session, rng: &mut StdRng, leases: &mut Vec<Lease>) {
    let queue = ["a", "b", "c"][rng.random_range(0..3)];
    let later = "clock_timestamp() + random() * interval '300 ms'";
    let any = "(select coalesce(array_agg(id), '{}') from (select id from scylla.tasks
        where status in ('waiting', 'ready', 'running') order by random() limit 2) t)";
    let sql = match rng.random_range(0..16) {
        0..3 => format!("select scylla.submit('{queue}')"),
        3 => format!("select scylla.submit('{queue}', run_at => {later})"),
        4 => format!("select scylla.submit('{queue}', after => {any}, on_failure => 'run')"),
        5 => format!("select scylla.submit('{queue}', after => {any})"),
        6 => format!(
            "select scylla.submit('{queue}', key => (random() * 5)::int::text, on_conflict =>
                (array['error', 'ignore', 'replace'])[1 + (random() * 2)::int])"
        ),
        7 => format!("select scylla.cancel_tasks({any})"),
        8 => format!("select scylla.delete_tasks({any})"),
        9 => format!("select scylla.delay(({any})[1], {later})"),
        10 => format!("select scylla.add_dependencies(({any})[1:1], ({any})[2:2])"),
        11 => {
            format!("select scylla.delay((random() * 5)::int::text, {later}, '{queue}', 'value')")
        }
        12 => format!("select scylla.cancel_message('{queue}', (random() * 5)::int::text)"),
        13 => {
            if let Ok(more) = s.try_own("w", queue, 3, "timeout => '200 ms'") {
                leases.extend(more);
            }
            return;
        }
        _ => {
            if let Some(lease) = leases.pop() {
                let outcome = ["completed", "aborted", "retry", "yield"][rng.random_range(0..4)];
                _ = s.return_task(&lease, outcome);
            }
            return;
        }
    };
    _ = s.batch_execute(&sql);
}

/// Eight connections do all that changes a queue's numbers, with rollbacks; the server is killed,
/// and counts again while they go on.
#[test]
fn random_work_is_counted_as_the_tables_have_it() {
    let server = Server::start(&["scylla.retry_interval = '50 ms'"]);
    let database = server.database();
    for round in 0..3 {
        let until = std::time::Instant::now() + seconds(4);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let database = &database;
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(round * 100 + client);
                    let mut s = database.connect();
                    let mut leases = Vec::new();
                    while std::time::Instant::now() < until {
                        match rng.random_range(0..6) {
                            0 => {
                                _ = s.batch_execute("begin");
                                (0..3).for_each(|_| act(&mut s, &mut rng, &mut leases));
                                _ = s.batch_execute("savepoint a");
                                (0..3).for_each(|_| act(&mut s, &mut rng, &mut leases));
                                let undo = rng.random_bool(0.5);
                                _ = s.batch_execute(if undo { "rollback to a" } else { "" });
                                act(&mut s, &mut rng, &mut leases);
                                let end = if rng.random_bool(0.5) { "commit" } else { "rollback" };
                                _ = s.batch_execute(end);
                            }
                            _ => act(&mut s, &mut rng, &mut leases),
                        }
                    }
                });
            }
        });
        let mut s = database.connect();
        // Leases expire, and what is due fires.
        eventually(seconds(20), "all is at rest", || {
            let busy = s.count(
                "select count(*) from scylla.tasks where status = 'running'
                    or status = 'waiting' and coalesce(run_at, '-infinity') > now() - interval '1 s'",
            );
            (busy == 0).then_some(())
        });
        agree(&mut s);
        if round == 0 {
            s.run("select scylla.refresh()");
            agree(&mut s);
        } else {
            server.kill();
            server.start_again();
        }
    }
    agree(&mut database.connect());
}

/// A recount takes its snapshot while others commit: no task is counted twice or not at all.
#[test]
fn a_recount_under_load_is_exact() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    // Enough that another process counts them.
    s.run(
        "select scylla.submit_many('big', array_agg('{}'::jsonb)) from generate_series(1, 60000)",
    );
    agree(&mut s);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut s, done) = (database.connect(), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    s.run("select scylla.submit('q')");
                    for lease in s.own("w", "q", 2) {
                        s.complete(&lease);
                    }
                }
            });
        }
        for _ in 0..20 {
            s.run("select scylla.refresh()");
            sleep(milliseconds(300));
        }
        done.store(true, Ordering::Relaxed);
    });
    agree(&mut s);
}

#[test]
fn the_oldest_ready_task_is_found_behind_those_that_run() {
    let server = Server::start(&["scylla.board_size = 1024"]);
    let database = server.database();
    let mut s = database.connect();
    // In steps of 30 s.
    let age = |s: &mut Session| {
        s.text(
            "select coalesce((extract(epoch from oldest_ready)::int / 30)::text, 'none')
             from scylla.queues where queue = 'q'",
        )
    };
    let insert = |s: &mut Session, action: &str, priority: &str, age: &str, n: i32| {
        s.run(&format!(
            "insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, spec)
             select gen_random_uuid(), 'q', '{action}', {priority}, true, false, now() - {age}, now(), '{{}}'
             from generate_series(1, {n}) n"
        ));
    };
    insert(&mut s, "", "0", "interval '200 s' + n * interval '30 ms'", 3000);
    insert(&mut s, "other", "n", "n * interval '1000 s'", 3);
    s.run("select scylla.refresh()");
    agree(&mut s);
    assert_eq!(age(&mut s), "100");
    assert_eq!(s.own_with("w", "q", 3, "actions => '{other}'").len(), 3);
    assert_eq!(age(&mut s), "6");
    let owned = s.own("w", "q", 1000);
    assert!(owned.len() > 900, "{}", owned.len());
    assert_eq!(age(&mut s), "5");
    s.run("delete from scylla.task");
    s.run("select scylla.refresh()");
    agree(&mut s);
    assert_eq!(age(&mut s), "none");
}

/// A statement that asks for many queues is told of each what one is told that asks for it alone.
#[test]
fn the_oldest_ready_tasks_of_many_queues_are_those_of_each() {
    let server = Server::start(&["scylla.board_size = 1024"]);
    let database = server.database();
    let mut s = database.connect();
    // Of each fifth queue: several actions and priorities; groups; one group behind another task of
    // it; only tasks that run; as the first, without settled tasks in between.
    s.run(
        "select scylla.configure_queue('q' || n, max_running_per_group => 1)
         from generate_series(1, 100) n where n % 5 in (1, 2);
         insert into scylla.task
             (id, queue, action, priority, group_key, ready, post_result, created, updated, spec)
         select gen_random_uuid(), 'q' || n, case n % 5 when 0 then 'a' || m % 3 else '' end, m % 2,
             case n % 5 when 1 then 'g' || m when 2 then '' end, true, false,
             now() - n * interval '100 s' - m * interval '5 s', now(), '{}'
         from generate_series(1, 100) n, generate_series(1, 7) m;
         select scylla.refresh()",
    );
    agree(&mut s);
    for n in (1..=100).filter(|n| n % 5 == 3) {
        assert_eq!(s.own("w", &format!("q{n}"), 7).len(), 7);
    }
    let some = (1..=100).filter(|n| n % 5 != 3 && n % 3 == 0);
    some.for_each(|n| assert!(!s.own("w", &format!("q{n}"), 2).is_empty()));
    let one_by_one = "select string_agg(format('%s %s', q, date_trunc('second', scylla._oldest_ready(q))), ', ' order by q)
        from unnest($1::text[]) q";
    let queues: Vec<String> = (0..=101).map(|n| format!("q{n}")).collect();
    let together: String = s.value(one_by_one, &[&queues]);
    let alone: Vec<String> =
        queues.chunks(1).map(|it| s.value::<String>(one_by_one, &[&it.to_vec()])).collect();
    let mut alone: Vec<_> = alone.iter().map(String::as_str).collect();
    alone.sort_by_key(|it| it.split(' ').next().unwrap().to_owned());
    assert_eq!(together, alone.join(", "));
    // Queues whose tasks all run, and those that are not there.
    assert_eq!(alone.iter().filter(|it| it.ends_with(' ')).count(), 22, "{alone:?}");
    let shown = "select count(*) from scylla.queues where oldest_ready > '1 min'";
    assert_eq!(s.count(shown), 80);
    // It is told of what the role may see.
    s.run("create role narrow; select scylla.grant('q5', 'narrow', '{look}'); set role narrow");
    let told: String = s.value(one_by_one, &[&queues]);
    assert_eq!(told.matches(':').count(), 2, "{told}");
    assert_eq!(s.count(shown), 1);
    s.run("reset role; drop owned by narrow; drop role narrow");
}

/// The query for psql's \watch shows what holds a queue up, and from the second time on how fast it
/// is.
#[test]
fn top_shows_limits_rates_and_workers() {
    let database = database();
    let mut s = database.connect();
    let top = include_str!("../../../sql/top.sql");
    let line = format!(
        "select coalesce(string_agg(format('%s %s %s %s %s %s %s', kind, what, ready, running,
             ended_s > 0, trim(tasks), held_by), E'\\n' order by kind, what), '') from ({}) t",
        top.trim_end().trim_end_matches(';')
    );
    s.run(
        "select scylla.submit('limited') from generate_series(1, 4);
         select scylla.submit('paused');
         select scylla.configure_queue('limited', max_running => 1);
         select scylla.pause('paused')",
    );
    agree(&mut s);
    let lease = s.own_one("limited");
    assert_eq!(
        s.text(&line),
        "all 2 queues 4 1  ####---------------- 
queue limited 3 1  #####--------------- max_running 1
queue paused 1 0  ----- paused
worker limited: w  1  #################### "
    );
    s.return_task(&lease, "completed").expect("return_task");
    sleep(milliseconds(600));
    let lines = s.text(&line);
    assert!(lines.contains("queue limited 3 0 t "), "{lines}");
    assert!(lines.contains("queue paused 1 0 f "), "{lines}");
    // It shows what the role may look at.
    s.run(
        "create role glances; select scylla.grant('paused', 'glances', '{look}'); set role glances",
    );
    let lines = s.text(&line);
    assert!(lines.starts_with("all 1 queues 1 0"), "{lines}");
    s.run("reset role; drop owned by glances; drop role glances");
}

/// psql shows it again and again with the two lines that its head tells.
#[test]
fn psql_watches_top_as_it_tells() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/top.sql");
    let top = std::fs::read_to_string(file).expect("top.sql");
    let told: Vec<&str> = top.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    let script = told.join("\n").replace("`cat top.sql`", &format!("`cat {file}`"));
    let database = database();
    database.connect().submit("watched");
    let (host, port) = database.reach();
    let psql = format!("{}/psql", Server::shared().bin());
    let arguments =
        ["-XAt", "-h", &host, "-p", &port.to_string(), "-U", "postgres", &database.name];
    let mut shows = Command::new("timeout")
        .args(["5", &psql])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("psql runs");
    let input = shows.stdin.take().expect("its input");
    (&input).write_all(format!("{script}\n").as_bytes()).expect("the script");
    drop(input);
    let shown = shows.wait_with_output().expect("its output");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let times = shown.lines().filter(|line| line.starts_with("queue|watched|")).count();
    assert!(times >= 2, "{times} times: {shown}");
}
