//! `metrics`.

use super::server::*;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub fn prometheus(program: &str) -> Command {
    let folder = std::env::var("SCYLLA_PROMETHEUS").expect("tools/scylla-pg/test runs the tests");
    Command::new(format!("{folder}/{program}"))
}

/// The program as it serves, which ends with this value.
pub struct Exporter {
    child: Child,
    pub address: String,
}

impl Exporter {
    pub fn start(d: &Database, user: &str, arguments: &[&str]) -> Exporter {
        let mut command = d.command(&[&["metrics", "--listen", "127.0.0.1:0"], arguments].concat());
        command.env("PGUSER", user).stdout(Stdio::piped());
        command.stderr(fs::File::create(d.server.folder.join(format!("{}.err", d.name))).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect(&line);
        Exporter { child, address: address.trim_end_matches("/metrics").to_owned() }
    }

    /// The status and the body.
    pub fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }

    /// A page that was not made before the call.
    pub fn page(&self) -> String {
        thread::sleep(Duration::from_millis(1100));
        let (status, body) = self.get("/metrics");
        assert_eq!(status, "200");
        body
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a series, as it is written.
pub fn value<'a>(page: &'a str, series: &str) -> Option<&'a str> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

#[track_caller]
fn has(page: &str, series: &[(&str, &str)]) {
    for (series, wanted) in series {
        assert_eq!(value(page, series), Some(*wanted), "{series}");
    }
}

#[test]
fn the_numbers_of_queues_are_served() {
    let d = Database::of(shared());
    let exporter = Exporter::start(&d, "postgres", &[]);
    d.sql("select scylla.submit('mail') from generate_series(1, 5)");
    d.sql("select scylla.submit('mail', run_at => now() + interval '1 day')");
    d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'mail')");
    d.sql("select scylla.return_task(id, token, 'aborted', error => '\"x\"') from scylla.own_tasks('w', 'mail')");
    d.sql("select scylla.return_task(id, token, 'yield') from scylla.own_tasks('w', 'mail')");
    d.sql("select count(*) from scylla.own_tasks('w', 'mail', timeout => '1 hour')");
    // A bucket of permits begins empty: nothing is owned after it.
    d.sql("select scylla.configure_queue('mail', max_running => 3, max_per_second => 1000)");
    d.sql("select scylla.submit('held')");
    d.sql("select scylla.pause('held')");
    d.sql("select scylla.schedule('daily', '@daily', 'mail')");
    let page = exporter.page();
    let series = [
        ("scylla_up", "1"),
        ("scylla_open", "1"),
        ("scylla_scheduler_up", "1"),
        ("scylla_info{version=\"0.2.0\",protocol=\"1\"}", "1"),
        ("scylla_tasks{queue=\"mail\",state=\"waiting\"}", "1"),
        ("scylla_tasks{queue=\"mail\",state=\"ready\"}", "2"),
        ("scylla_tasks{queue=\"mail\",state=\"running\"}", "1"),
        ("scylla_queue_paused{queue=\"mail\"}", "0"),
        ("scylla_queue_paused{queue=\"held\"}", "1"),
        ("scylla_workers{queue=\"mail\"}", "1"),
        ("scylla_workers{queue=\"held\"}", "0"),
        ("scylla_limit{queue=\"mail\",kind=\"max_running\"}", "3"),
        ("scylla_limit{queue=\"mail\",kind=\"max_per_second\"}", "1000"),
        ("scylla_tasks_submitted_total{queue=\"mail\"}", "6"),
        ("scylla_tasks_owned_total{queue=\"mail\"}", "4"),
        ("scylla_tasks_completed_total{queue=\"mail\"}", "1"),
        ("scylla_tasks_aborted_total{queue=\"mail\"}", "1"),
        ("scylla_tasks_yielded_total{queue=\"mail\"}", "1"),
        ("scylla_ready_to_owned_seconds_bucket{queue=\"mail\",le=\"+Inf\"}", "4"),
        ("scylla_ready_to_owned_seconds_bucket{queue=\"mail\",le=\"16777.216\"}", "4"),
        ("scylla_ready_to_owned_seconds_count{queue=\"mail\"}", "4"),
        ("scylla_owned_to_settled_seconds_count{queue=\"mail\"}", "2"),
        ("scylla_schedule_skipped_total{schedule=\"daily\"}", "0"),
        ("scylla_names_omitted{kind=\"queue\"}", "0"),
        ("scylla_xmin_age_seconds", "0"),
    ];
    has(&page, &series);
    assert_eq!(value(&page, "scylla_limit{queue=\"mail\",kind=\"max_ready\"}"), None);
    let number = |series: &str| value(&page, series).expect(series).parse::<f64>().unwrap();
    assert!(number("scylla_oldest_ready_seconds{queue=\"mail\"}") > 0.5);
    let next = number("scylla_schedule_next_run_timestamp_seconds{schedule=\"daily\"}");
    assert!(next > 1.6e9 && next % 86400.0 == 0.0, "{next}");
    // The board is the server's, for all databases.
    let slots = |state: &str| number(&format!("scylla_board_slots{{state=\"{state}\"}}"));
    assert_eq!(slots("leased") + slots("queued") + slots("free"), 8192.0);
    assert_eq!(slots("leased"), 1.0);
    // Each bucket has those before it, and what took less than its bound: `stats` is the measure.
    let stats = d
        .sql("select sum(x) from scylla.stats, unnest(ready_to_owned[:11]) x where queue = 'mail'");
    let bucket = "scylla_ready_to_owned_seconds_bucket{queue=\"mail\",le=\"1.024\"}";
    assert_eq!(value(&page, bucket), Some(stats.as_str()));
    let wide = d
        .sql("select sum(x) from scylla.stats, unnest(ready_to_owned[:19]) x where queue = 'mail'");
    let bucket = "scylla_ready_to_owned_seconds_bucket{queue=\"mail\",le=\"262.144\"}";
    assert_eq!(value(&page, bucket), Some(wide.as_str()));
    assert_eq!(exporter.get("/healthz"), ("200".into(), "ok\n".into()));
    assert_eq!(exporter.get("/other").0, "404");

    // A transaction that stays open.
    let mut session = d.session();
    session.run("begin isolation level repeatable read; select scylla.submit('q')");
    thread::sleep(Duration::from_millis(300));
    assert!(
        value(&exporter.page(), "scylla_xmin_age_seconds").unwrap().parse::<f64>().unwrap() > 1.0
    );
}

/// Promtool reads the page, whatever queues are called.
#[test]
fn names_are_escaped_and_their_number_is_limited() {
    let d = Database::of(shared());
    for name in ["a\"b\\c", "line\nbreak", "Grüße 🚚", "x\",y=\"z", "r\rt\t", "z1", "z2"] {
        d.sql(&format!(
            "select scylla.submit(e'{}')",
            name.replace('\\', "\\\\").replace('\n', "\\n")
        ));
        d.sql("select scylla.schedule('s' || n, '@daily', 'z1') from generate_series(1, 7) n");
    }
    let exporter = Exporter::start(&d, "postgres", &["--max-names", "6"]);
    let page = exporter.page();
    for queue in ["a\\\"b\\\\c", "line\\nbreak", "Grüße 🚚", "x\\\",y=\\\"z", "r\rt\t"] {
        let series = format!("scylla_tasks{{queue=\"{queue}\",state=\"ready\"}} 1\n");
        assert!(page.contains(&series), "{series}");
    }
    assert_eq!(page.matches("scylla_queue_paused{").count(), 6);
    assert_eq!(page.matches("scylla_schedule_skipped_total{").count(), 6);
    has(
        &page,
        &[
            ("scylla_names_omitted{kind=\"queue\"}", "1"),
            ("scylla_names_omitted{kind=\"schedule\"}", "1"),
        ],
    );
    let mut child =
        prometheus("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    // A page is of one second, for all.
    let begun = Instant::now();
    let first = exporter.page();
    assert!(begun.elapsed() < Duration::from_secs(2) && exporter.get("/metrics").1 == first);
}

#[test]
fn a_role_sees_what_it_may() {
    let d = Database::of(shared());
    d.sql("do $$ begin create role onlooker login; exception when duplicate_object then end $$");
    d.sql("do $$ begin create role monitor login; exception when duplicate_object then end $$");
    d.sql("grant pg_monitor to monitor");
    d.sql("select scylla.submit('mail'), scylla.submit('secret')");
    d.sql("select scylla.schedule('daily', '@daily', 'mail')");
    let onlooker = Exporter::start(&d, "onlooker", &[]);
    let page = onlooker.page();
    has(&page, &[("scylla_up", "1"), ("scylla_scheduler_up", "1")]);
    assert!(!page.contains("mail") && !page.contains("xmin"), "{page}");
    d.sql("select scylla.grant('mail', 'onlooker', '{look}')");
    let page = onlooker.page();
    assert!(
        page.contains("queue=\"mail\"")
            && page.contains("schedule=\"daily\"")
            && !page.contains("secret")
    );
    let monitor = Exporter::start(&d, "monitor", &[]);
    let page = monitor.page();
    assert!(page.contains("queue=\"secret\"") && page.contains("scylla_xmin_age_seconds "));
}

/// A server that is away, is killed, comes back, or has no scylla.
#[test]
fn a_server_that_is_away_is_told() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::bare(&server);
    let exporter = Exporter::start(&d, "postgres", &[]);
    assert_eq!(value(&exporter.page(), "scylla_up"), Some("0"));
    let errors = || fs::read_to_string(server.folder.join(format!("{}.err", d.name))).unwrap();
    assert!(
        errors().contains("HINT: Connect to another database, or run: create extension scylla"),
        "{}",
        errors()
    );
    d.sql("create extension scylla");
    eventually("a scheduler", || {
        Some(d.sql("select scheduler_pid from scylla.health")).filter(|it| !it.is_empty())
    });
    d.sql("select scylla.submit('q') from generate_series(1, 10)");
    // Counts are written each five seconds: what comes now, a crash loses.
    eventually("totals", || {
        (d.sql("select sum(events[1]) from scylla.queue_total") == "10").then_some(())
    });
    d.sql("select scylla.submit('q') from generate_series(1, 7)");
    let submitted = "scylla_tasks_submitted_total{queue=\"q\"}";
    assert_eq!(value(&exporter.page(), submitted), Some("17"));
    server.kill();
    let page = exporter.page();
    assert!(value(&page, "scylla_up") == Some("0") && !page.contains("queue="), "{page}");
    assert_eq!(exporter.get("/healthz").0, "503");
    server.restart(&[]);
    let page = eventually("the server is back", || {
        Some(exporter.page()).filter(|it| value(it, submitted).is_some())
    });
    let counted: u32 =
        d.sql("select submitted from scylla.stats where queue = 'q'").parse().unwrap();
    assert!(counted < 17, "the crash lost nothing: {counted}");
    has(&page, &[("scylla_up", "1"), (submitted, "17")]);
    d.sql("select scylla.submit('q') from generate_series(1, 20)");
    let more = (counted + 20).to_string();
    assert_eq!(value(&exporter.page(), submitted), Some(more.as_str()));
    // Once is enough.
    assert_eq!(errors().matches("could not connect").count(), 1, "{}", errors());
}

#[test]
fn arguments_that_do_not_fit() {
    let d = Database { server: shared(), name: "postgres".into() };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ran = d.run(&["metrics", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(ran.status, 1);
    assert!(
        ran.err.contains("could not listen on \"127.0.0.1:") && ran.err.contains("HINT"),
        "{}",
        ran.err
    );
    assert_eq!(d.run(&["metrics", "--max-names", "0"]).status, 2);
}
