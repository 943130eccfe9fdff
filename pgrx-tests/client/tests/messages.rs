//! Messages: delayed under an id, fired once, at their deadline, even when processes die.

use client::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// How late a consumer may get a message while others keep the machine busy (B114).
const LATE: f64 = 60.0;

/// Delays the messages 0 to n - 1; `first` is the deadline of the first, and the last is due
/// `spread` ms later. Returns the outcomes.
fn delay_many(s: &mut Session, queue: &str, n: i32, first: &str, spread: i32) -> Vec<String> {
    let sql = "select distinct outcome from scylla.delay_messages($1, (
        select jsonb_agg(jsonb_build_object('id', 'm' || i, 'value', i::text,
            'deadline', clock_timestamp() + $3::text::interval + interval '1 ms' * ($4::int * i / $2::int)))
        from generate_series(0, $2::int - 1) i)) order by outcome";
    let rows = s.query(sql, &[&queue, &n, &first, &spread]).expect("delay_messages");
    rows.iter().map(|row| row.get(0)).collect()
}

/// B80, B81, B86, B87: each message fires at its deadline, once, with any number of workers.
#[test]
fn messages_fire_at_their_deadline_once() {
    let database = database();
    let mut s = database.connect();
    assert_eq!(delay_many(&mut s, "q", 2_000, "2 s", 1_500), ["delayed"]);
    assert!(s.own("w", "q", 1).is_empty());
    let consume = || {
        let (mut s, mut ids) = (database.connect(), Vec::new());
        eventually(seconds(30), "all are consumed", || {
            let leases = s.own("w", "q", 50);
            ids.extend(leases.iter().map(|it| it.spec["id"].as_str().expect("an id").to_owned()));
            leases.iter().for_each(|lease| s.complete(lease));
            (s.tasks("completed") == 2_000).then_some(())
        });
        ids
    };
    let mut ids: Vec<String> = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..3).map(|_| scope.spawn(consume)).collect();
        consumers.into_iter().flat_map(|it| it.join().expect("a consumer")).collect()
    });
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2_000);
    let late: f64 = s.value(
        "select max(extract(epoch from (history -> 0 ->> 'time')::timestamptz - run_at))::float8 from scylla.tasks",
        &[],
    );
    assert!(late < LATE, "{late}");
}

/// B82, B83: of many sessions that delay the same id, one succeeds. Once the message has fired, its
/// id is free again.
#[test]
fn an_id_is_one_messages_at_a_time() {
    let database = database();
    let barrier = Barrier::new(4);
    let delay = |wait: &str| {
        let mut s = database.connect();
        let sql = format!(
            "select count(*) filter (where scylla.delay('m' || i, clock_timestamp() + interval '{wait}', 'q', ''))
             from generate_series(1, 100) i"
        );
        barrier.wait();
        s.count(&sql)
    };
    let all = |wait: &'static str| -> i64 {
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| delay(wait))).collect();
            calls.into_iter().map(|it| it.join().expect("a call")).sum()
        })
    };
    assert_eq!(all("5 seconds"), 100);
    let mut s = database.connect();
    eventually(seconds(20), "all fire", || (s.tasks("ready") == 100).then_some(()));
    assert_eq!(all("1 hour"), 100);
    assert_eq!((s.tasks("ready"), s.tasks("waiting")), (100, 100));
}

/// B85: a dropped message is reported in the server's log, and not to the client.
#[test]
fn dropped_messages_are_logged() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let long = "y".repeat(129);
    for (id, deadline) in
        [(None, "now"), (Some(""), "now"), (Some(&*long), "now"), (Some("z"), "infinity")]
    {
        let sql =
            "select scylla.delay($1::text, $2::text::timestamptz, 'some queue', 'secret value')";
        assert!(!s.value::<bool>(sql, &[&id, &deadline]));
    }
    let rows = s.query(
        r#"select outcome from scylla.delay_messages('batch', '[{"id": "good", "deadline": "2100-01-01", "value": "secret value"},
            {"id": "bad", "value": "secret value"}, {"deadline": "2100-01-01"}, 7]')"#,
        &[],
    );
    let outcomes: Vec<String> =
        rows.expect("delay_messages").iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["delayed", "invalid", "invalid", "invalid"]);
    let log = server.log();
    let warnings =
        |of: &str| log.lines().filter(|it| it.contains("WARNING:") && it.contains(of)).count();
    assert_eq!(warnings("scylla dropped a message for queue \"some queue\""), 4, "{log}");
    assert_eq!(warnings("scylla dropped a message for queue \"batch\""), 3);
    assert!(log.contains("Its id is \"z\".") && log.contains("Its id is \"bad\"."));
    assert!(!log.contains("good") && !log.contains("secret") && !log.contains(&long));
    server.assert_log_is_clean();
}

const MESSAGES: i32 = 20_000;
const KILLS: usize = 10;
const ENDS_PER_KILL: usize = 5;

/// B86, B87, B93: with the scheduler killed 50 times and the server 10 times, no message is lost,
/// and each fires once.
#[test]
fn killed_in_the_middle_nothing_is_lost_or_fired_twice() {
    let server = Server::start(&["scylla.lease_timeout = '2s'"]);
    let database = server.database();
    let mut s = database.connect();
    // The transaction that fires writes this, so a firing that a crash undoes leaves no trace here.
    s.run(
        "create table fired (id text);
           create function note(ready boolean, history jsonb, spec jsonb) returns boolean
             language plpgsql immutable as $$ begin
               if ready and history = '[]' then insert into public.fired values (spec ->> 'id'); end if;
               return true;
             end $$;
           create index note on scylla.task (public.note(ready, history, spec));
           alter function note volatile",
    );
    assert_eq!(delay_many(&mut s, "q", MESSAGES, "3 s", 25_000), ["delayed"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // The server is down half of the time.
                    if let Ok(mut s) = database.try_connect() {
                        consume(&mut s, &is_over);
                    }
                    sleep(milliseconds(50));
                }
            });
        }
        for _ in 0..KILLS {
            for n in 0..ENDS_PER_KILL {
                server.terminate_scheduler(&database);
                // A scheduler that has run long enough is restarted at once.
                sleep(milliseconds(if n == 1 { 550 } else { 20 }));
            }
            server.kill();
            server.start_again();
        }
        let done = std::panic::catch_unwind(|| {
            let mut s = database.connect();
            let look = "select count(*) from scylla.finished where status = 'completed'";
            eventually(seconds(60), "all are consumed", || {
                (s.count(look) == i64::from(MESSAGES)).then_some(())
            });
        });
        is_over.store(true, Ordering::Relaxed);
        done.expect("all are consumed");
    });
    let mut s = database.connect();
    let counts = "select count(*), count(distinct id) from fired";
    let row = s.query_one(counts, &[]).expect("counts");
    let all = i64::from(MESSAGES);
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all, all));
    let counts = "select count(distinct spec ->> 'id'), (select count(*) from scylla.task) from scylla.finished";
    let row = s.query_one(counts, &[]).expect("counts");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all, 0));
    server.assert_log_is_clean();
}

/// Owns and completes messages until the connection fails.
fn consume(s: &mut Session, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let done = s.try_value::<i64>(
            "with mine as (select array_agg(id) as ids, array_agg(token) as tokens from scylla.own_tasks('w', 'q', 200))
             select count(status) from mine, unnest(scylla.return_tasks(ids, tokens)) status where ids is not null",
            &[],
        );
        match done {
            Ok(0) => sleep(milliseconds(5)),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
