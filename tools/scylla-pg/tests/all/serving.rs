//! `web`: where it is served, and what its open pages are told.

use super::metrics::{Exporter, value};
use super::server::*;
use super::web::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A certificate for localhost, and its key.
fn certificate(d: &Database) -> [String; 2] {
    let file = |end: &str| format!("{}/{}.{end}", d.server.folder.display(), d.name);
    let [cert, key] = [file("crt"), file("pem")];
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", &key, "-out", &cert])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    [cert, key]
}

#[test]
fn the_page_is_served_by_tls() {
    let d = Database::of(shared());
    let [cert, key] = certificate(&d);
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let site = Site::start(&d, &[&tls as &[&str], &["--role", "postgres"]].concat());
    // Who connects and says nothing delays no other.
    let _silent = TcpStream::connect(&site.address).unwrap();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-verify_hostname", "localhost"])
        .args(["-CAfile", &cert, "-connect", &site.address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    let request = "GET /db/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    input.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    client.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    drop(input);
    client.wait().unwrap();
    let page = Answer::of(&bytes);
    assert!(page.status == 200 && page.head.contains("; Secure"), "{}", page.head);
    // Without TLS there is no answer.
    let mut plain = TcpStream::connect(&site.address).unwrap();
    plain.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/"));

    // With TLS, passwords are taken on any address.
    drop(Site::start(&d, &[&tls as &[&str], &["--listen", "0.0.0.0:0"]].concat()));
    for (cert, key) in [("/nowhere", key.as_str()), (&cert, "/nowhere"), (&key, &cert)] {
        let ran = d.run(&["web", "--tls-cert", cert, "--tls-key", key]);
        assert!(ran.status == 2 && ran.err.contains("could not read"), "{}", ran.err);
    }
    assert_eq!(d.run(&["web", "--tls-cert", &cert]).status, 2);
}

#[test]
fn several_databases_have_names_and_colours() {
    let (live, test) = (Database::of(shared()), Database::of(shared()));
    live.sql("select scylla.submit('of-live')");
    test.sql("select scylla.submit('of-test')");
    let named = |name: &str, dbname: &str| format!("{name}=dbname={dbname}");
    let all = [named("live,#c33", &live.name), named("test", &test.name), named("gone", "nowhere")];
    let databases = ["--database", &all[0], "--database", &all[1], "--database", &all[2]];
    let more = ["--role", "postgres", "--access", "full", "--metrics", "127.0.0.1:0"];
    let site = Site::start(&live, &[&databases as &[&str], &more].concat());
    let page = eventually("all are looked at", || {
        let told = ["of-live", "of-test", "database &quot;nowhere&quot; does not exist"];
        Some(site.get("/", &[])).filter(|page| told.iter().all(|it| page.body.contains(it)))
    });
    for text in [
        "fill=\"#c33\"",
        "aria-label=\"Databases\"",
        "href=\"/live/tasks\"",
        "href=\"/test/queue?name=of-test\"",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    let gone = site.get("/gone/tasks", &[]).body;
    assert!(gone.contains("role=\"alert\"") && gone.contains("does not exist"), "{gone}");
    for (path, has, lacks) in
        [("/live/tasks", "of-live", "of-test"), ("/test/tasks", "of-test", "of-live")]
    {
        let page = site.get(path, &[]);
        assert!(page.body.contains(has) && !page.body.contains(lacks), "{path}: {}", page.body);
    }
    // What is done in one is not done in the other.
    let (cookie, token) = proof(&site.get("/test/queue?name=of-test", &[]));
    let body = format!("token={token}&action=pause&name=of-test");
    assert_eq!(site.call("POST", "/test/act", &[&cookie], &body).status, 303);
    let paused = "select count(*) from scylla.queues where paused";
    assert_eq!((live.sql(paused), test.sql(paused)), ("0".into(), "1".into()));

    // Prometheus finds each below its name.
    let numbers = |path: &str| get(&site.metrics, path, &[]);
    for (path, queue) in
        [("/metrics", "of-live"), ("/live/metrics", "of-live"), ("/test/metrics", "of-test")]
    {
        let series = format!("scylla_tasks{{queue=\"{queue}\",state=\"ready\"}}");
        let page = eventually("its tasks are counted", || {
            Some(numbers(path).body).filter(|it| value(it, &series) == Some("1"))
        });
        assert_eq!(page.matches("scylla_queue_paused{").count(), 1);
        assert_eq!(numbers(&path.replace("metrics", "healthz")).status, 200);
    }
    let away = numbers("/gone/metrics").body;
    assert!(value(&away, "scylla_up") == Some("0") && !away.contains("queue="), "{away}");
    assert_eq!(numbers("/gone/healthz").status, 503);
    assert_eq!(numbers("/").status, 404);
    assert_eq!(site.get("/metrics", &[]).status, 404);

    let wrong = ["live", "Live=x", "a/b=x", "events=x", "metrics=x", "=x", "a,red=x", "a,#12=x"];
    for wrong in wrong {
        assert_eq!(live.run(&["web", "--database", wrong]).status, 2, "{wrong}");
    }
    let ran = live.run(&["web", "--database", "a=x", "--database", "a=y"]);
    assert!(ran.status == 2 && ran.err.contains("the same name"), "{}", ran.err);
}

/// The numbers for Prometheus are those of `metrics`. They need no login, and no other connection.
#[test]
fn prometheus_reads_what_the_pages_show() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("select scylla.submit('mail') from generate_series(1, 3)");
    d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'mail')");
    d.sql("select scylla.schedule('daily', '@daily', 'mail')");
    let site = Site::start(&d, &["--metrics", "127.0.0.1:0"]);
    let series = |page: &str| {
        let series = page.lines().filter_map(|it| it.rsplit_once(' ')).map(|it| it.0.to_owned());
        series.collect::<Vec<_>>()
    };
    let completed = "scylla_tasks_completed_total{queue=\"mail\"}";
    let own = Exporter::start(&d, "postgres", &[]);
    let wanted = eventually("it is counted", || {
        Some(own.page()).filter(|it| value(it, completed) == Some("1"))
    });
    let page = eventually("all is read", || {
        sleep(Duration::from_millis(1100));
        let page = get(&site.metrics, "/metrics", &[]).body;
        Some(page).filter(|it| series(it) == series(&wanted))
    });
    for series in [completed, "scylla_schedule_skipped_total{schedule=\"daily\"}", "scylla_up"] {
        assert_eq!(value(&page, series), value(&wanted, series), "{series}");
    }
    drop(own);
    let connections = "select count(*) from pg_stat_activity where application_name = 'scylla-pg'";
    eventually("one connection is left", || (d.sql(connections) == "1").then_some(()));
    let taken = d.run(&["web", "--listen", "127.0.0.1:0", "--metrics", &site.metrics]);
    assert!(taken.status == 1 && taken.err.contains("by --metrics"), "{}", taken.err);
    server.kill();
    eventually("it is told", || {
        let page = get(&site.metrics, "/metrics", &[]).body;
        (value(&page, "scylla_up") == Some("0")).then_some(())
    });
}

#[test]
fn the_page_is_served_below_a_path_of_another_site() {
    let d = Database::of(shared());
    d.sql("select scylla.submit('mail')");
    let url = "https://ops.example.com/scylla";
    let below = |more: &[&str]| {
        let listen = free_address();
        let own = ["--listen", &listen, "--public-url", url];
        let mut site = Site::start(&d, &[&own as &[&str], more].concat());
        assert_eq!(site.address, "ops.example.com");
        site.address = listen;
        site
    };
    let site = below(&["--role", "postgres", "--access", "full"]);
    let host = "Host: ops.example.com";
    eventually("the first look is done", || {
        site.get("/scylla/", &[host]).body.contains("mail").then_some(())
    });
    for path in ["", "/", "/db/tasks", "/db/queue?name=mail", "/db/schedules", "/db/roles"] {
        let page = site.get(&format!("/scylla{path}"), &[host]);
        assert_eq!(page.status, 200, "{path}");
        let links: Vec<_> = page.body.split('"').filter(|it| it.starts_with('/')).collect();
        assert!(links.len() > 8 && links.iter().all(|it| it.starts_with("/scylla/")), "{links:?}");
        for asset in links.iter().filter(|it| it.contains("/assets/")) {
            assert_eq!(site.get(asset, &[host]).status, 200, "{asset}");
        }
    }
    for path in ["/", "/db/tasks", "/scyllax/db/tasks", "/events?view=overview"] {
        assert_eq!(site.get(path, &[host]).status, 404, "{path}");
    }
    let page = site.get("/scylla/db/queue?name=mail", &[host]);
    let wanted = "Path=/scylla/; HttpOnly; SameSite=Strict; Secure";
    assert!(page.head.contains(wanted), "{}", page.head);
    let (cookie, token) = proof(&page);
    let pause = |origin: &str| {
        let body = format!("token={token}&action=pause&name=mail");
        site.call("POST", "/scylla/db/act", &[host, &cookie, &format!("Origin: {origin}")], &body)
    };
    let own = format!("http://{}", site.address);
    for origin in ["https://example.com", "http://ops.example.com", &own] {
        let refused = pause(origin);
        assert_eq!(refused.status, 403, "{origin}");
        assert!(refused.body.contains("href=\"/scylla/assets/"), "{}", refused.body);
    }
    let done = pause("https://ops.example.com");
    assert_eq!((done.status, location(&done)), (303, "/scylla/db/queue?name=mail".into()));
    site.pushed(&page, &[host], "paused", || ());
    // A visitor without a role is sent to the login, which is below the path, too.
    let site = below(&[]);
    let sent = location(&site.get("/scylla/db/tasks", &[host]));
    assert!(sent.starts_with("/scylla/login?next="), "{sent}");
    assert_eq!(site.get(&sent, &[host]).status, 200);
    for wrong in ["ops.example.com", "ftp://x", "https://a@b/", "https://a/?b", "https://a/{x}"] {
        assert_eq!(d.run(&["web", "--public-url", wrong]).status, 2, "{wrong}");
    }
}

#[test]
fn an_action_on_many_tasks_can_be_stopped() {
    let d = Database::of(shared());
    roles(&d);
    let specs = "array(select to_jsonb(n) from generate_series(1, 30000) n)";
    d.sql(&format!("select scylla.submit_many('mail', {specs})"));
    let site = proxied(&d, &[]);
    let all = "X-Role: web_all";
    let (cookie, token) = proof(&site.get("/db/tasks?queue=mail", &[all]));
    let body = format!("token={token}&queue=mail&deed=all+cancel");
    let question = site.call("POST", "/db/confirm", &[all, &cookie], &body);
    assert!(question.body.contains("Cancel 30,001 tasks?"), "{}", question.body);
    let filter = "%7B%22queue%22%3A%22mail%22%7D";
    let body = format!("token={token}&action=cancel&filter={filter}&count=30001");
    let job = location(&site.call("POST", "/db/act", &[all, &cookie], &body));
    // Only who began it sees and stops it.
    let one = "X-Role: web_one";
    let (others, foreign) = proof(&site.get("/db/tasks?queue=mail", &[one]));
    assert_eq!(site.get(&job, &[one]).status, 404);
    site.call("POST", &job, &[one, &others], &format!("token={foreign}"));
    let running = site.get(&job, &[all]);
    assert!(running.body.contains(">Stop</button>"), "{}", running.body);
    let stop = site.call("POST", &job, &[all, &cookie], &format!("token={token}"));
    assert_eq!((stop.status, location(&stop)), (303, job.clone()));
    let stopped = eventually("it stops", || {
        Some(site.get(&job, &[all])).filter(|it| it.body.contains("You have stopped it"))
    });
    let cancelled =
        "select count(*) from scylla.tasks where queue = 'mail' and status = 'cancelled'";
    let number: u32 = d.sql(cancelled).parse().unwrap();
    assert!(number < 30_001 && number.is_multiple_of(1_000), "{number}");
    let told = format!("value=\"{number}\"");
    assert!(stopped.body.contains(&told), "{told}: {}", stopped.body);
    assert!(!stopped.body.contains("data-refresh"));
}

/// Pages of a queue and of a task change while they are open.
#[test]
fn open_pages_are_told_what_changes() {
    let d = Database::of(shared());
    roles(&d);
    let site = proxied(&d, &[]);
    for role in ["web_all", "web_one"] {
        let id = d.sql("select scylla.submit('mail')");
        let role = format!("X-Role: {role}");
        let queue = eventually("the queue is seen", || {
            let page = site.get("/db/queue?name=mail", &[&role]);
            Some(page).filter(|it| it.body.contains("<dt>Ready</dt>"))
        });
        let ready = d.sql("select ready + 1 from scylla.queues where queue = 'mail'");
        site.pushed(&queue, &[&role], &format!("<dt>Ready</dt><dd>{ready}</dd>"), || {
            d.sql("select scylla.submit('mail')");
        });
        let mut token = String::new();
        let task = || site.get(&format!("/db/tasks/{id}"), &[&role]);
        site.pushed(&task(), &[&role], "owned by", || {
            token = d.sql(&format!("select token from scylla.own_task('{id}', 'w')"));
        });
        site.pushed(&task(), &[&role], "given back by", || {
            d.sql(&format!("select scylla.return_task('{id}', '{token}', 'yield')"));
        });
        site.pushed(&task(), &[&role], ">cancelled<", || {
            d.sql(&format!("select scylla.cancel_tasks('{{{id}}}')"));
        });
        // A task that has settled changes no more.
        assert!(!task().body.contains("data-events"));
    }
    // A new queue is there with its first task, also for a role of its own.
    let begun = Instant::now();
    site.pushed(&site.get("/", &["X-Role: web_all"]), &["X-Role: web_all"], "of-late", || {
        d.sql("select scylla.submit('of-late')");
    });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Who may not look at a queue is told nothing of it.
    let none = "X-Role: web_none";
    let mut page = site.get("/db/queue?name=mail", &[none]);
    assert_eq!(page.status, 404);
    page.body = "data-events=\"/events?view=queue&amp;db=db&amp;name=mail\"".into();
    site.pushed(&page, &[none], "there is no such queue", || ());
}

/// The buttons of one task's page.
#[test]
fn one_task_is_cancelled_submitted_again_and_deleted() {
    let d = Database::of(shared());
    let id = d.sql("select scylla.submit('mail')");
    let site = Site::start(&d, &["--role", "postgres", "--access", "full"]);
    let (cookie, token) = proof(&site.get(&format!("/db/tasks/{id}"), &[]));
    let act = |action: &str, id: &str| {
        let body = format!("token={token}&id={id}&action={action}");
        let answer = site.call("POST", "/db/act", &[&cookie], &body);
        assert_eq!(answer.status, 303, "{action}: {}", answer.body);
        location(&answer)
    };
    let page = format!("/db/tasks/{id}");
    assert_eq!(act("delay&by=1+hour", &id), page);
    assert_eq!(act("delay&by=0", &id), page);
    assert_eq!(act("cancel", &id), page);
    let again = act("resubmit", &id);
    let new = again.strip_prefix("/db/tasks/").unwrap();
    assert_eq!(d.sql(&format!("select resubmitted_from from scylla.tasks where id = '{new}'")), id);
    act("delete", &id);
    assert_eq!(site.get(&page, &[]).status, 404);
    // What waits for a task is in its picture.
    let after = d.sql(&format!("select scylla.submit('mail', after => '{{{new}}}')"));
    let graph = site.get(&format!("{again}/graph"), &[]).body;
    assert!(graph.contains(&format!("/db/tasks/{after}")), "{graph}");
    assert!(site.get(&again, &[]).body.contains(&format!("data-later=\"{again}/graph\"")));
}
