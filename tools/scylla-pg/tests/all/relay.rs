//! `relay`: tasks from the outbox of a database without the extension, each once and in order.

use super::server::*;
use std::env;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// An outbox that belongs to a role without rights, and scylla's database.
struct Pair<'a> {
    app: Database<'a>,
    jobs: Database<'a>,
}

impl<'a> Pair<'a> {
    fn of(app: &'a Server, jobs: &'a Server) -> Pair<'a> {
        let app = Database::bare(app);
        let sql = app.done(&["relay", "--print-sql"]);
        app.sql(
            "do $$ begin create role owner login; exception when others then end $$;
            do $$ begin create role application login; exception when others then end $$",
        );
        app.sql(&format!("alter database {} owner to owner", app.name));
        app.sql(&format!("set session authorization owner; {sql}"));
        app.sql(
            "grant usage on schema scylla to application;
            grant execute on function scylla.submit, scylla.submit_many, scylla.submit_tasks to application",
        );
        Pair { app, jobs: Database::of(jobs) }
    }

    fn from(&self) -> String {
        let of = |name| self.app.server.variable(name);
        let (host, port) = (of("PGHOST"), of("PGPORT"));
        format!("host={host} port={port} user=owner dbname={}", self.app.name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.jobs.command(&[&["relay", "--from", &self.from()], arguments].concat())
    }

    #[track_caller]
    fn once(&self) {
        let ran = ran(&mut self.command(&["--once"]));
        assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    }

    fn start(&self, arguments: &[&str]) -> Relay {
        Relay(self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn as_application(&self, sql: &str) -> String {
        self.app.sql(&format!("set session authorization application; {sql}"))
    }
}

/// A relay that ends with this value, by kill -9.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What psql writes of a call that fails: its code and its message.
fn error(d: &Database, call: &str) -> String {
    let call = call.replace('\'', "''");
    d.sql(&format!(
        "create or replace function pg_temp.error(call text) returns text language plpgsql as
        $$ begin execute call; return ''; exception when others then return sqlstate || ' ' || sqlerrm; end $$;
        select pg_temp.error('{call}')"
    ))
}

#[test]
fn the_outbox_has_the_calls_of_scylla() {
    let pair = Pair::of(shared(), shared());
    let arguments = "select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'scylla' and p.proname in ('submit', 'submit_many', 'submit_tasks') order by 1";
    assert_eq!(pair.app.sql(arguments), pair.jobs.sql(arguments));
    let undocumented =
        "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'scylla' and obj_description(p.oid) is null";
    assert_eq!(pair.app.sql(undocumented), "0");
    for call in [
        "submit(null)",
        "submit('')",
        "submit(repeat('q', 49))",
        "submit(repeat('ä', 25))",
        "submit('sql')",
        "submit('q', null)",
        "submit('q', 'null')",
        "submit('q', action => null)",
        "submit('q', action => repeat('a', 129))",
        "submit('q', priority => -1)",
        "submit('q', priority => 4294967296)",
        "submit('q', key => '')",
        "submit('q', key => repeat('k', 257))",
        "submit('q', on_conflict => null)",
        "submit('q', on_conflict => 'x')",
        "submit('q', run_at => 'infinity')",
        "submit('q', after => array[null]::uuid[])",
        "submit('q', on_failure => 'x')",
        "submit('q', max_tries => -1)",
        "submit('q', retry_interval => '-1 s')",
        "submit('q', retry_jitter => '-1 s')",
        "submit('q', timeout => '0')",
        "submit('q', post_result => null)",
        "submit('q', group_key => '')",
        "submit('q', meta => '1')",
        "submit('q', key => 'k', unique_for => '0')",
        "submit('q', unique_for => '1 s')",
        "submit_many('q', array[null]::jsonb[])",
        "submit_many('q', array['1', 'null']::jsonb[])",
        "submit_many('q', array['1']::jsonb[], ids => '{}')",
        "submit_many('q', array['1']::jsonb[], keys => '{a,b}')",
        "submit_many('q', array['1']::jsonb[], keys => array[''])",
        "submit_many('q', array['1']::jsonb[], group_keys => array[repeat('g', 257)])",
        "submit_many('q', array['1', '2']::jsonb[], keys => '{a,a}')",
        "submit_many('q', array_fill('1'::jsonb, array[100001]))",
        "submit_tasks(null)",
        "submit_tasks('{}')",
        "submit_tasks('[{\"queue\": \"q\", \"x\": 1}]')",
        "submit_tasks('[{}]')",
        "submit_tasks('[1]')",
    ] {
        let call = format!("select scylla.{call}");
        let (ours, scyllas) = (error(&pair.app, &call), error(&pair.jobs, &call));
        assert!(!scyllas.is_empty(), "{call}");
        assert_eq!(ours.split(' ').next(), scyllas.split(' ').next(), "{call}: {ours}, {scyllas}");
    }
    assert_eq!(pair.app.sql("select count(*) from scylla.outbox"), "0");
    assert_eq!(pair.app.sql("select scylla.submit_many('q', '{}')"), "{}");
}

#[test]
fn every_argument_arrives() {
    let pair = Pair::of(shared(), shared());
    let calls = "
        select scylla.submit('q', '{\"n\": 1.50, \"x\": null}', 'act', 4294967295,
            '01990000-0000-7000-8000-000000000001', 'k', 'error', '2100-01-01 12:00+02', null, 'run', 7,
            '1 day 00:00:01.5', '2 s', '1 mon', true, 'g', '{\"trace\": null}', '1 hour');
        select scylla.submit('q', id => '01990000-0000-7000-8000-000000000002',
            after => '{01990000-0000-7000-8000-000000000001}');
        select scylla.submit('q', '\"text\"', id => '01990000-0000-7000-8000-000000000003');
        select scylla.submit_many('q', array['1', '[null]']::jsonb[], 'b', 2, '2100-01-02', 3, '4 s', '5 s', '6 s',
            true, '{01990000-0000-7000-8000-000000000004,01990000-0000-7000-8000-000000000005}', '{x,null}',
            '{null,y}', '{}');
        select id from scylla.submit_tasks('[{\"queue\": \"q\", \"id\": \"01990000-0000-7000-8000-000000000006\"}]')";
    let is_direct = Database::of(shared());
    is_direct.sql(calls);
    pair.as_application(calls);
    pair.once();
    let rows = "select to_jsonb(t) - 'created' - 'updated' from scylla.task t order by id";
    let (ours, direct) = (pair.jobs.sql(rows), is_direct.sql(rows));
    assert_eq!(ours.lines().count(), 6);
    assert_eq!(ours, direct);
}

#[test]
fn an_application_may_submit_and_not_read() {
    let pair = Pair::of(shared(), shared());
    assert_eq!(pair.as_application("select count(scylla.submit('q'))"), "1");
    for statement in [
        "select from scylla.outbox",
        "select from scylla.outbox_1",
        "insert into scylla.outbox (slot, id, queue, spec) values (0, gen_random_uuid(), 'q', '1')",
        "delete from scylla.outbox",
        "truncate scylla.outbox_0",
        "select setval('scylla.outbox_round', 7)",
        "select scylla._outbox_slot()",
    ] {
        let sql = format!("set session authorization application; {statement}");
        let mut command = pair
            .app
            .server
            .command(&format!("{}/psql", pair.app.server.variable("SCYLLA_BIN")), &pair.app.name);
        let ran = ran(command.args(["-Xqc", &sql]));
        assert!(ran.err.contains("permission denied"), "{statement}: {}", ran.err);
    }
}

#[test]
fn rolled_back_and_repeated_submissions() {
    let pair = Pair::of(shared(), shared());
    pair.app.sql("begin; select scylla.submit('q', '1'); rollback");
    pair.app.sql(
        "begin; select scylla.submit('q', '2'); savepoint a; select scylla.submit('q', '3');
        rollback to a; select scylla.submit('q', '4'); commit",
    );
    let id = pair.app.sql("select scylla.submit('q', '5')");
    pair.once();
    let specs = "select string_agg(spec::text, ',' order by created, id) from scylla.tasks";
    assert_eq!(pair.jobs.sql(specs), "2,4,5");
    // A settled and deleted task is not made again, though its row is still there.
    assert_eq!(pair.jobs.sql(&format!("select scylla.delete_tasks(array['{id}'::uuid])")), "1");
    pair.once();
    assert_eq!(pair.jobs.sql(specs), "2,4");
    // One with the same id is no second one, and no failure.
    let first = pair.app.sql("select id from scylla.outbox where spec = '2'");
    pair.app.sql(&format!("select scylla.submit('q', '6', id => '{first}')"));
    pair.once();
    assert_eq!(pair.jobs.sql(specs), "2,4");
    assert_eq!(pair.jobs.sql("select count(*) from scylla_relay.refused"), "0");
}

#[test]
fn what_scylla_refuses_is_kept_and_told() {
    let pair = Pair::of(shared(), shared());
    pair.app.sql("select scylla.submit('q', '1', key => 'k')");
    pair.app.sql("select scylla.submit('q', '2', key => 'k')");
    pair.app.sql("select scylla.submit('q', '3', key => 'k', on_conflict => 'ignore')");
    pair.app.sql("select scylla.submit('q', '4')");
    pair.once();
    assert_eq!(
        pair.jobs.sql("select string_agg(spec::text, ',' order by spec) from scylla.tasks"),
        "1,4"
    );
    let refused = pair.jobs.sql("select task ->> 'spec', error from scylla_relay.refused");
    assert_eq!(refused, "2|key \"k\" specified more than once for queue \"q\"");
    let finding =
        pair.jobs.json(&["doctor"]).into_iter().find(|it| it["check"] == "relay").unwrap();
    assert_eq!(finding["severity"], "warning");
    assert!(finding["message"].as_str().unwrap().contains("1 submissions"), "{finding}");
}

#[test]
fn a_queue_that_is_full_makes_the_relay_wait() {
    let pair = Pair::of(shared(), shared());
    pair.jobs.sql("select scylla.configure_queue('q', max_ready => 2)");
    pair.app.sql("select scylla.submit('q', '1'); select scylla.submit('q', '2')");
    let _relay = pair.start(&[]);
    let count = || pair.jobs.sql("select count(*) from scylla.tasks");
    eventually("two", || (count() == "2").then_some(()));
    pair.app.sql("select scylla.submit('q', '3')");
    sleep(Duration::from_millis(1500));
    assert_eq!(count(), "2");
    pair.jobs.sql("select scylla.configure_queue('q', max_ready => 5)");
    eventually("three", || (count() == "3").then_some(()));
}

#[test]
fn a_submission_wakes_the_relay() {
    let pair = Pair::of(shared(), shared());
    let _relay = pair.start(&["--poll-interval", "60000"]);
    let listens = "select last_value from scylla.outbox_listener";
    let is_listening = || (pair.app.sql(listens) == "1").then_some(());
    pair.app.sql("select setval('scylla.outbox_listener', 2)");
    for n in 1..=3 {
        eventually("it listens", is_listening);
        sleep(Duration::from_millis(100));
        let begun = Instant::now();
        pair.app.sql("select scylla.submit('q')");
        let expected = n.to_string();
        eventually("it is carried", || {
            (pair.jobs.sql("select count(*) from scylla.tasks") == expected).then_some(())
        });
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(pair.app.sql(listens), "2");
    }
}

/// Sizes of the tables and their indexes, while a session has an old snapshot.
#[test]
fn a_held_snapshot_makes_nothing_grow() {
    let pair = Pair::of(shared(), shared());
    let (mut one, mut other) = (pair.app.session(), pair.jobs.session());
    one.run("begin isolation level repeatable read; select scylla.submit('long', '0')");
    other.run("begin isolation level repeatable read; select count(*) from pg_class");
    let _relay = pair.start(&["--keep", "1"]);
    let size = || -> i64 {
        let sizes = "select sum(pg_total_relation_size(c.oid)) from pg_class c
            where relkind = 'r' and relnamespace = 'scylla'::regnamespace";
        pair.app.sql(sizes).parse().unwrap()
    };
    // The transaction has a row in the second partition: the first is written until it ends.
    one.run("commit; begin isolation level repeatable read; select count(*) from pg_class");
    let begun = Instant::now();
    let mut sent = 1;
    let (mut largest, mut of_a_row) = (0, 0);
    while begun.elapsed() < Duration::from_secs(9) {
        pair.app.sql("select scylla.submit_many('q', array_fill('{}'::jsonb, array[1000]))");
        sent += 1000;
        largest = largest.max(size());
        if sent == 5001 {
            of_a_row = largest / sent;
        }
        sleep(Duration::from_millis(20));
    }
    eventually("all are carried", || {
        (pair.jobs.sql("select count(*) from scylla.task") == sent.to_string()).then_some(())
    });
    let round: i64 = pair.app.sql("select last_value from scylla.outbox_round").parse().unwrap();
    assert!(round >= 4, "round {round}");
    let left: i64 = pair.app.sql("select count(*) from scylla.outbox").parse().unwrap();
    let noted: i64 =
        pair.jobs.sql("select count(*) from scylla_relay.carried_outbox").parse().unwrap();
    assert!(left * 3 < sent * 2 && noted < sent, "{left} and {noted} of {sent}");
    assert!(largest * 3 < of_a_row * sent * 2, "{largest} bytes for {sent} rows of {of_a_row}");
}

#[test]
fn a_transaction_that_goes_on_holds_up_no_other() {
    let pair = Pair::of(shared(), shared());
    let mut session = pair.app.session();
    session.run("begin; select scylla.submit('q', '1')");
    let _relay = pair.start(&["--keep", "1"]);
    let specs = || {
        pair.jobs.sql("select string_agg(spec::text, ',' order by created, id) from scylla.tasks")
    };
    pair.app.sql("select scylla.submit('q', '2')");
    eventually("the second", || (specs() == "2").then_some(()));
    // It has a row in one partition, which stays; the other is not entered before.
    for n in 3..6 {
        sleep(Duration::from_millis(1200));
        pair.app.sql(&format!("select scylla.submit('q', '{n}')"));
    }
    eventually("the others", || (specs() == "2,3,4,5").then_some(()));
    session.run("commit");
    eventually("the first", || (specs() == "2,3,4,5,1").then_some(()));
}

#[test]
fn one_of_two_relays_carries() {
    let pair = Pair::of(shared(), shared());
    let first = pair.start(&[]);
    let seen = || pair.jobs.sql("select relay from scylla_relay.source");
    let table = "select to_regclass('scylla_relay.source') is not null";
    eventually("the first", || (pair.jobs.sql(table) == "t" && !seen().is_empty()).then_some(()));
    assert_eq!(seen(), format!("process {}", first.0.id()));
    let second = pair.start(&[]);
    pair.app.sql("select scylla.submit_many('q', array_fill('{}'::jsonb, array[5000]))");
    sleep(Duration::from_millis(1500));
    assert_eq!(seen(), format!("process {}", first.0.id()));
    drop(first);
    pair.app.sql("select scylla.submit_many('q', array_fill('{}'::jsonb, array[5000]))");
    eventually("the second", || (seen() == format!("process {}", second.0.id())).then_some(()));
    eventually("all", || {
        (pair.jobs.sql("select count(*) from scylla.task") == "10000").then_some(())
    });
}

#[test]
fn wrong_arguments_and_databases() {
    let pair = Pair::of(shared(), shared());
    for (arguments, status, words) in [
        (&[] as &[&str], 2, "--from"),
        (&["--from", "dbname=x", "--name", "A-b"], 2, "1 to 40 of a to z"),
        (&["--from", "dbname=x", "--keep", "0"], 2, "--keep"),
        (&["--from", "dbname=x", "--poll-interval", "x"], 2, "--poll-interval"),
        (&["--from", "dbname=nowhere"], 1, "database \"nowhere\" does not exist"),
        (&["--from", "dbname=postgres"], 1, "has no outbox"),
        (&["--from", "dbname=postgres sslmode=x"], 2, "invalid sslmode"),
        (&["--print-sql", "--once"], 2, "--once"),
    ] {
        let ran = pair.jobs.run(&[&["relay"], arguments].concat());
        assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
    let ran = pair.app.run(&["relay", "--from", &pair.from()]);
    assert!(
        ran.status == 1 && ran.err.contains("--dbname is no database with scylla"),
        "{}",
        ran.err
    );
}

/// Servers and relays that are killed, and connections that are cut, while four clients submit,
/// each to its queue, and a worker for each runs what it finds. SCYLLA_RELAY_ROUNDS: how many
/// times.
#[test]
fn each_submission_arrives_once_and_in_order_whatever_is_killed() {
    let rounds: usize = env::var("SCYLLA_RELAY_ROUNDS").map_or(5, |it| it.parse().unwrap());
    let app = Server::start(&[]);
    let jobs = Server::start(&["scylla.board_size = 65536"]);
    let pair = Pair::of(&app, &jobs);
    pair.app.sql("create table ledger (queue text, n int, primary key (queue, n))");
    pair.app.sql("create sequence step");
    pair.jobs.sql("create table ran (queue text, n int, at bigserial)");
    pair.jobs.sql(
        "select scylla.configure_queue(q, keep_finished => false) from unnest('{q0,q1}'::text[]) q",
    );
    let (stop, done) =
        (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicBool::new(false));
    let is = std::sync::atomic::Ordering::SeqCst;
    let try_sql = |d: &Database, sql: &str| -> bool {
        let program = format!("{}/psql", d.server.variable("SCYLLA_BIN"));
        let mut command = d.server.command(&program, &d.name);
        ran(command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql])).status == 0
    };
    thread::scope(|scope| {
        for queue in ["q0", "q1", "q2", "q3"] {
            let (pair, stop, done, try_sql) = (&pair, &stop, &done, &try_sql);
            // A ledger and the outbox in one transaction; each third is rolled back.
            scope.spawn(move || {
                let sql = format!("do $$ begin for i in 1..200 loop
                    insert into ledger select '{queue}', coalesce(max(n), 0) + 1 from ledger where queue = '{queue}';
                    perform scylla.submit('{queue}', to_jsonb(max(n))) from ledger where queue = '{queue}';
                    if i % 3 = 0 then rollback; else commit; end if; perform pg_sleep(0.002); end loop; end $$");
                while !stop.load(is) {
                    if !try_sql(&pair.app, &sql) {
                        sleep(Duration::from_millis(100));
                    }
                }
            });
            scope.spawn(move || {
                let sql = format!("with o as materialized (select row_number() over () as r, * from scylla.own_tasks('{queue}', '{queue}', 200, timeout => '2 s')),
                    i as (insert into ran (queue, n) select '{queue}', spec::int from o order by r returning 1)
                    select count(scylla.return_tasks(ids, tokens)) from
                    (select array_agg(id) as ids, array_agg(token) as tokens from o) a, (select count(*) from i) b");
                while !done.load(is) {
                    if !try_sql(&pair.jobs, &sql) {
                        sleep(Duration::from_millis(100));
                    }
                    sleep(Duration::from_millis(20));
                }
            });
        }
        let mut relay = pair.start(&["--keep", "1"]);
        let spare = pair.start(&["--keep", "1"]);
        let kill = |server: &Server| {
            pg(&["kill", server.folder.to_str().unwrap()]);
            pg(&["restart", server.folder.to_str().unwrap()]);
        };
        for round in 0..rounds {
            sleep(Duration::from_millis(700 + 137 * (round as u64 % 5)));
            match round % 5 {
                0 => {
                    drop(relay);
                    relay = pair.start(&["--keep", "1"]);
                }
                1 => kill(&app),
                2 => kill(&jobs),
                3 => {
                    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                        where pid <> pg_backend_pid() and backend_type = 'client backend'";
                    try_sql(&pair.app, cut);
                    try_sql(&pair.jobs, cut);
                }
                _ => {
                    kill(&app);
                    kill(&jobs);
                }
            }
        }
        sleep(Duration::from_secs(1));
        stop.store(true, is);
        // The clients have ended, and both servers answer.
        sleep(Duration::from_secs(2));
        eventually("everything ran", || {
            let count = pair.app.sql("select count(*) from ledger");
            (pair.jobs.sql("select count(*) from ran").parse::<i64>().unwrap()
                >= count.parse().unwrap())
            .then_some(())
        });
        done.store(true, is);
        drop((relay, spare));
    });
    let each = "select queue, count(*), count(distinct n), max(n) from";
    let ledger = pair.app.sql(&format!("{each} ledger group by queue order by queue"));
    assert_eq!(pair.jobs.sql(&format!("{each} ran group by queue order by queue")), ledger);
    assert!(ledger.lines().count() == 4, "{ledger}");
    let early = "select count(*) from (select n, lag(n) over (partition by queue order by at) as before from ran) x
        where n <> coalesce(before, 0) + 1";
    assert_eq!(pair.jobs.sql(early), "0", "out of order");
    assert_eq!(pair.jobs.sql("select count(*) from scylla_relay.refused"), "0");
}
