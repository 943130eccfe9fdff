//! `web`: rights, forged requests, and what users of the database write.

use super::server::*;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// The program, serving.
pub struct Site {
    child: Child,
    pub address: String,
    /// Where `--metrics` serves.
    pub metrics: String,
    log: Arc<Mutex<String>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect(&text);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

fn send(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let has_host = headers.iter().any(|it| it.starts_with("Host:"));
    let host = if has_host { String::new() } else { format!("Host: {address}\r\n") };
    let more: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
    let length = body.len();
    // Where the head was enough for an answer, the rest may find no reader.
    let _ = write!(
        stream,
        "{method} {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}",
    );
    stream
}

/// What is served at an address.
pub fn get(address: &str, path: &str, headers: &[&str]) -> Answer {
    let mut bytes = Vec::new();
    send(address, "GET", path, headers, "").read_to_end(&mut bytes).unwrap();
    Answer::of(&bytes)
}

impl Site {
    pub fn start(d: &Database, arguments: &[&str]) -> Site {
        let own: &[&str] = match arguments.contains(&"--listen") {
            true => &["web"],
            false => &["web", "--listen", "127.0.0.1:0"],
        };
        let arguments = [own, arguments].concat();
        let mut child = d.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut address = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let url = objects(&line)[0]["url"].as_str().expect(&line).to_owned();
            url.split('/').nth(2).unwrap().to_owned()
        };
        let own = address();
        let metrics = if arguments.contains(&"--metrics") { address() } else { String::new() };
        let log = Arc::new(Mutex::new(String::new()));
        let to = log.clone();
        std::thread::spawn(move || {
            let lines = lines.lines().map_while(Result::ok);
            lines.for_each(|line| *to.lock().unwrap() += &(line + "\n"));
        });
        Site { child, address: own, metrics, log }
    }

    /// What it has logged since it listens.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn call(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut bytes = Vec::new();
        let _ = send(&self.address, method, path, headers, body).read_to_end(&mut bytes);
        Answer::of(&bytes)
    }

    /// Waits until a text is pushed to an open page.
    pub fn pushed(&self, page: &Answer, headers: &[&str], text: &str, do_it: impl FnOnce()) {
        let events = page.body.split_once("data-events=\"").expect(&page.body).1;
        let events = events.split('"').next().unwrap().replace("&amp;", "&");
        let stream = send(&self.address, "GET", &events, headers, "");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(15))).unwrap();
        do_it();
        let mut all = String::new();
        for line in BufReader::new(stream).lines() {
            all += &line.unwrap_or_else(|error| panic!("no {text}: {error}: {all}"));
            if all.contains(text) {
                return;
            }
        }
        panic!("no {text}: {all}");
    }

    pub fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.call("GET", path, headers, "")
    }
}

/// The cookie that an answer gives, and the token of its first form.
pub fn proof(answer: &Answer) -> (String, String) {
    let after = |text: &str, start: &str, end: char| {
        let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
        rest.split(end).next().unwrap().to_owned()
    };
    let cookie = after(&answer.head, "set-cookie: ", ';');
    let token = after(&answer.body, "name=\"token\" value=\"", '"');
    (format!("Cookie: {cookie}"), token)
}

/// Where an answer leads to.
pub fn location(answer: &Answer) -> String {
    let rest = answer.head.split_once("location: ").expect(&answer.head).1;
    rest.lines().next().unwrap().to_owned()
}

const EVIL: &str = "<script>alert(1)</script>";

pub fn roles(d: &Database) {
    for role in ["web_all", "web_one", "web_look", "web_none"] {
        d.sql(&format!(
            "do $$ begin create role {role} login; exception when duplicate_object then end $$"
        ));
    }
    d.sql("select scylla.submit(queue) from unnest('{mail,other}'::text[]) queue");
    d.sql("select scylla.grant('*', 'web_all', '{submit,work,cancel,look,manage}')");
    d.sql("select scylla.grant('mail', 'web_one', '{submit,work,cancel,look,manage}')");
    d.sql("select scylla.grant('*', 'web_look', '{look}')");
}

/// A trusted proxy says the role of each request.
pub fn proxied<'a>(d: &Database, more: &[&'a str]) -> Site {
    let own = ["--trusted-proxy", "127.0.0.1", "--role-header", "X-Role"];
    Site::start(d, &[&own as &[&'a str], more].concat())
}

#[test]
fn the_database_decides_what_a_role_sees_and_does() {
    let d = Database::of(shared());
    roles(&d);
    let site = proxied(&d, &[]);
    for (role, sees_mail, sees_other) in [
        ("web_all", true, true),
        ("web_one", true, false),
        ("web_look", true, true),
        ("web_none", false, false),
    ] {
        let header = format!("X-Role: {role}");
        let page = eventually("the overview has health", || {
            // What is made for one role is not shown to another.
            site.get("/", &["X-Role: web_all"]);
            Some(site.get("/", &[&header])).filter(|it| it.body.contains("Scheduler"))
        });
        let sees = |name: &str| page.body.contains(&format!("<bdi>{name}</bdi>"));
        assert_eq!((sees("mail"), sees("other")), (sees_mail, sees_other), "{role}");
        let queue = site.get("/db/queue?name=other", &[&header]);
        assert_eq!(queue.status, if sees_other { 200 } else { 404 }, "{role}");
        let tasks = site.get("/db/tasks?queue=mail", &[&header]);
        let may = ["web_all", "web_one"].contains(&role);
        assert_eq!(tasks.body.contains("value=\"all cancel\""), may, "{role}: {}", tasks.body);
    }
}

/// Each action, as a role without rights, and where all is read-only.
#[test]
fn actions_without_rights_change_nothing() {
    let d = Database::of(shared());
    roles(&d);
    d.sql("select scylla.schedule('s', '@daily', 'mail')");
    d.sql("select count(*) from scylla.own_tasks('w', 'other', 1)");
    let id = d.sql("select id from scylla.tasks where queue = 'mail'");
    let state = "select (select string_agg(t::text, '' order by id) from scylla.task t), (select string_agg(s::text, '') from scylla.schedule s), (select string_agg(q::text, '') from scylla.queue q), (select string_agg(p::text, '' order by p::text) from scylla.privilege p)";
    let before = d.sql(state);
    let all = ["web_none", "web_look", "web_all"];
    for (access, roles) in [("full", &all[..2]), ("read-only", &all[..])] {
        let site = proxied(&d, &["--access", access]);
        for role in roles {
            let header = format!("X-Role: {role}");
            // A role without rights sees no form: the token is from when it had one.
            d.sql(&format!("select scylla.grant('mail', '{role}', '{{look}}')"));
            let (cookie, token) = proof(&site.get("/db/tasks?queue=mail", &[&header]));
            d.sql(&format!("select scylla.revoke('mail', '{role}', '{{look}}')"));
            for action in [
                "action=cancel",
                "action=resubmit",
                "action=delete",
                "action=delay&by=1+hour",
                "action=pause&name=mail",
                "action=resume&name=mail",
                "action=set&name=mail&setting=max_running&value=1",
                "action=reset&name=mail&setting=max_running",
                "action=drain&name=w",
                "action=release&name=w",
                "action=run_schedule&name=s",
                "action=activate&name=s",
                "action=deactivate&name=s",
                "action=alter&name=s&schedule=@hourly",
                "action=unschedule&name=s",
                "action=cancel_group&queue=mail&name=g",
                "action=grant&name=web_none&queue=*&privilege=look",
                "action=revoke&name=web_all&queue=*&privilege=look",
                "action=cancel&filter={}&count=9",
                "action=resubmit&filter={}&count=9",
                "action=delete&filter={}&count=9",
                "action=nothing",
            ] {
                let body = format!("token={token}&id={id}&{action}");
                let answer = site.call("POST", "/db/act", &[&header, &cookie], &body);
                // What is done batch by batch fails on the page of its progress.
                if answer.status == 303 && action.contains("filter") {
                    let page = location(&answer);
                    eventually("it fails", || {
                        site.get(&page, &[&header]).body.contains("role=\"alert\"").then_some(())
                    });
                    continue;
                }
                assert!(
                    [400, 403, 404].contains(&answer.status),
                    "{role}: {action}: {}",
                    answer.status
                );
            }
            for deed in ["cancel", "resubmit", "delete"] {
                let body = format!("token={token}&deed=all+{deed}");
                let answer = site.call("POST", "/db/confirm", &[&header, &cookie], &body);
                assert!(
                    answer.status == 403 || answer.body.contains("No task matches"),
                    "{role}: {deed}: {}",
                    answer.body
                );
            }
        }
    }
    assert_eq!(d.sql(state), before);
}

#[test]
fn forged_requests_are_refused() {
    let d = Database::of(shared());
    roles(&d);
    let site = Site::start(&d, &["--role", "web_all", "--access", "full"]);
    let (cookie, token) = proof(&site.get("/db/queue?name=mail", &[]));
    let good = format!("token={token}&name=mail&action=pause");
    let origin = format!("Origin: http://{}", site.address);
    for (headers, body) in [
        (vec![cookie.as_str()], "name=mail&action=pause".to_owned()),
        (vec![&cookie], format!("token={}&name=mail&action=pause", "0".repeat(64))),
        (vec![], good.clone()),
        (vec![&cookie, "Origin: https://evil.example"], good.clone()),
        (vec![&cookie, "Origin: null"], good.clone()),
        (vec![&cookie, "Sec-Fetch-Site: cross-site"], good.clone()),
    ] {
        let answer = site.call("POST", "/db/act", &headers, &body);
        assert_eq!(answer.status, 403, "{headers:?} {body}");
    }
    for path in ["/db/act", "/db/confirm", "/db/jobs/0123456789abcdef", "/login", "/logout"] {
        assert_eq!(site.call("POST", path, &[&cookie], "name=mail").status, 403, "{path}");
    }
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        let path = format!("/db/act?{good}");
        assert_eq!(site.call(method, &path, &[&cookie], &good).status, 405, "{method}");
    }
    let paused = "select coalesce(bool_or(paused), false) from scylla.queues where queue = 'mail'";
    assert_eq!(d.sql(paused), "f");
    assert_eq!(site.call("POST", "/db/act", &[&cookie, &origin], &good).status, 303);
    assert_eq!(d.sql(paused), "t");
    // Another name for this machine is how a site of others would reach it.
    assert_eq!(site.get("/", &["Host: evil.example"]).status, 421);
    // A link on another site brings no cookie: the page loads itself again, and takes no other one.
    let linked = site.get("/", &["Sec-Fetch-Site: cross-site"]);
    assert!(
        !linked.head.contains("set-cookie") && linked.body.contains("refresh"),
        "{}",
        linked.body
    );
}

#[test]
fn a_role_header_counts_only_from_a_trusted_proxy() {
    let d = Database::of(shared());
    roles(&d);
    let site = Site::start(&d, &["--trusted-proxy", "10.0.0.1", "--role-header", "X-Role"]);
    assert_eq!(site.get("/", &["X-Role: web_all"]).status, 403);
    let site = proxied(&d, &[]);
    for headers in [
        &[] as &[&str],
        &["X-Role: "],
        &["X-Role: none"],
        &["X-Role: web_look", "X-Role: postgres"],
    ] {
        assert_eq!(site.get("/", headers).status, 403, "{headers:?}");
    }
    // Without the option the header is nothing.
    let site = Site::start(&d, &[]);
    let answer = site.get("/db/tasks", &["X-Role: postgres"]);
    assert_eq!(answer.status, 303);
    assert!(answer.head.contains("location: /login?next=%2Fdb%2Ftasks"), "{}", answer.head);
    // That a password came by TLS is believed of a trusted proxy only.
    let login = |headers: &[&str]| site.get("/login", headers).body;
    assert!(login(&[]).contains("type=\"password\""));
    for headers in [
        ["X-Forwarded-For: 10.0.0.9", "X-Forwarded-Proto: https"],
        ["Forwarded: for=10.0.0.9;proto=https", "X-Forwarded-Proto: https"],
    ] {
        let page = login(&headers);
        assert!(page.contains("readable on its way") && !page.contains("type=\"password\""));
    }
    let ran = d.run(&["web", "--role-header", "X-Role"]);
    assert_eq!(ran.status, 2, "{}", ran.err);
    let ran = d.run(&["web", "--listen", "0.0.0.0:0"]);
    assert!(ran.status == 2 && ran.err.contains("passwords need TLS"), "{}", ran.err);
}

#[test]
fn what_users_write_is_text() {
    let d = Database::of(shared());
    let id = d.sql(&format!(
        "select scylla.submit('{EVIL}', '{{\"{EVIL}\": 12345678901234567890.50}}', '{EVIL}', key => '{EVIL}', group_key => '{EVIL}', meta => '{{\"{EVIL}\": \"{EVIL}\"}}')"
    ));
    d.sql(&format!(
        "select scylla.schedule('{EVIL}', '@daily', '{EVIL}', '{{\"a\": \"{EVIL}\"}}')"
    ));
    d.sql(&format!("select scylla.return_task(id, token, 'aborted', error => '{{\"code\": \"{EVIL}\", \"description\": \"{EVIL}\", \"args\": {{\"traceback\": \"{EVIL}\"}}}}') from scylla.own_tasks('{EVIL}', '{EVIL}')"));
    let done = d.sql(&format!("select scylla.submit('{EVIL}', post_result => true)"));
    d.sql(&format!("select scylla.return_task(id, token, result => '{{\"{EVIL}\": \"{EVIL}\"}}') from scylla.own_tasks('{EVIL}', '{EVIL}')"));
    d.sql(&format!("set application_name = '{EVIL}'; select scylla.register_worker('{{\"{EVIL}\": \"{EVIL}\"}}')"));
    let command = d.sql(&format!("select scylla.run_sql('select 1 as \"{EVIL}\"')"));
    d.sql(&format!(
        "do $$ begin create role \"{EVIL}\"; exception when duplicate_object then end $$"
    ));
    d.sql(&format!("select scylla.grant('{EVIL}', '\"{EVIL}\"', '{{look}}')"));
    let held = d.sql(&format!("select scylla.submit('{EVIL}', action => '{EVIL}', after => array[scylla.submit('{EVIL}')])"));
    let site = Site::start(&d, &["--role", "postgres", "--access", "full"]);
    eventually("the first look is done", || {
        site.get("/", &[]).body.contains("&lt;script&gt;").then_some(())
    });
    let name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in [
        "/",
        "/db/tasks",
        &format!("/db/tasks?queue={name}&spec={name}"),
        &format!("/db/tasks/{id}"),
        "/db/workers",
        "/db/schedules",
        &format!("/db/schedule?name={name}"),
        &format!("/db/queue?name={name}"),
        "/db/groups/list",
        "/db/roles",
        "/db/sql",
        &format!("/db/tasks/{done}"),
        &format!("/db/tasks/{command}"),
        &format!("/db/tasks/{held}"),
        &format!("/db/tasks/{held}/graph"),
        &format!("/db/tasks/{name}/graph"),
        &format!("/login?next={name}"),
        &format!("/db/tasks?after={name}"),
        &format!("/events?view={name}&db={name}"),
        &format!("/db/tasks/{name}"),
        &format!("/{name}/tasks"),
        &format!("/db/{name}"),
        &format!("/db/queue?name=x{name}"),
    ] {
        let page = site.get(path, &[]);
        assert!(!page.body.contains("<script>alert"), "{path}: {}", page.body);
        assert!(
            page.head.contains("content-security-policy: default-src 'self'"),
            "{path}: {}",
            page.head
        );
    }
    assert!(site.get(&format!("/db/tasks/{id}"), &[]).body.contains("12345678901234567890.50"));
    // Each of them was shown.
    for (path, number) in [
        (format!("/db/tasks/{done}"), 3),
        (format!("/db/tasks/{command}"), 1),
        (format!("/db/tasks/{held}"), 2),
        (format!("/db/tasks/{held}/graph"), 3),
        ("/db/workers".to_owned(), 3),
        ("/db/roles".to_owned(), 2),
    ] {
        let shown = || site.get(&path, &[]).body.matches("&lt;script&gt;").count();
        eventually(&path, || (shown() >= number).then_some(()));
    }
}

/// Paths and bytes that no page has made.
#[test]
fn odd_requests_are_refused_and_the_site_goes_on() {
    let d = Database::of(shared());
    d.sql("select scylla.submit('q')");
    let site = Site::start(&d, &["--role", "postgres", "--access", "full"]);
    let (cookie, token) = proof(&site.get("/db/tasks", &[]));
    for path in [
        "/../../etc/passwd",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/db/tasks/../../secret",
        "/db/tasks/x",
        "/db/tasks/01990000-0000-7000-8000-000000000000/errors",
        "/nowhere/tasks",
        "/db/jobs/..%2Fact",
        "/events?view=queue&db=nowhere",
        "/events",
    ] {
        assert_eq!(site.get(path, &[]).status, 404, "{path}");
    }
    for path in [
        "/db/queue?name=%00",
        "/db/queue?name=%FF",
        "/db/tasks?queue=%00",
        "/db/tasks?spec=%7B",
        "/db/tasks?status=none",
        "/db/schedule?name=%00",
        "/db/%FF",
    ] {
        let answer = site.get(path, &[]);
        let refuses = [400, 404].contains(&answer.status)
            || answer.status == 200 && answer.body.contains("role=\"alert\"");
        assert!(refuses, "{path}: {} {}", answer.status, answer.body);
    }
    let act = |body: &str| site.call("POST", "/db/act", &[&cookie], body).status;
    let huge = format!("token={token}&action=pause&name={}", "q".repeat(3 << 20));
    assert_eq!(act(&huge), 413);
    for odd in [
        "action=pause&name=%00",
        "action=delay&id=x",
        "action=cancel&id=%FF",
        "action=set&name=q&setting=max_running)--&value=1",
    ] {
        assert_eq!(act(&format!("token={token}&{odd}")), 400, "{odd}");
    }
    let long = format!("X-Long: {}", "x".repeat(1 << 20));
    assert_eq!(site.get("/", &[&long]).status, 431);
    assert_eq!(site.get("/db/tasks", &[]).status, 200);
    assert_eq!(d.sql("select count(*) from scylla.queues where paused"), "0");
}

#[test]
fn huge_specs_and_those_of_odd_bytes_are_shown_and_downloaded() {
    let d = Database::of(shared());
    let id = d.sql("select scylla.submit('q', jsonb_build_object('a', repeat('ü', 400000), 'b', E'\\x01\\x1b\\u202e'))");
    let site = Site::start(&d, &["--role", "postgres"]);
    let page = site.get(&format!("/db/tasks/{id}"), &[]);
    assert!(page.status == 200 && page.body.len() < 200_000, "{}", page.body.len());
    let list = site.get("/db/tasks", &[]);
    assert!(list.status == 200 && list.body.len() < 20_000, "{}", list.body.len());
    let file = site.get(&format!("/db/tasks/{id}/spec"), &[]);
    assert!(file.body.len() > 800_000 && file.head.contains("attachment"), "{}", file.head);
}

/// Passwords: a wrong one, no password at all, and what fails often.
#[test]
fn a_role_logs_in_by_its_password() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("create role web_user login password 'right'");
    d.sql("select scylla.grant('mail', 'web_user', '{look}')");
    d.sql("select scylla.submit('mail')");
    let hba = format!("{}/pg_hba.conf", server.folder.display());
    // The program sees the numbers, and may not look at tasks.
    d.sql("create role web_program login in role pg_monitor");
    let site = Site::start(&d, &["--database", "db=user=web_program"]);
    let log_in = |password: &str| {
        let (cookie, token) = proof(&site.get("/login", &[]));
        let body =
            format!("token={token}&role=web_user&password={password}&next=%2F%2Fevil.example");
        site.call("POST", "/login", &[&cookie], &body)
    };
    let open = log_in("right");
    assert!(
        open.status == 503 && open.body.contains("does not ask for a password"),
        "{}",
        open.body
    );
    let rest = fs::read_to_string(&hba).unwrap();
    fs::write(
        &hba,
        format!("local all web_user scram-sha-256\nhost all web_user all scram-sha-256\n{rest}"),
    )
    .unwrap();
    d.sql("select pg_reload_conf()");
    let done = eventually("the server asks for a password", || {
        Some(log_in("right")).filter(|it| it.status == 303)
    });
    assert!(
        done.head.contains("location: /\r\n") && done.head.contains("HttpOnly; SameSite=Strict"),
        "{}",
        done.head
    );
    let cookie = format!(
        "Cookie: {}",
        done.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap()
    );
    let tasks = site.get("/db/tasks", &[&cookie]);
    assert!(tasks.status == 200 && tasks.body.contains("<bdi>mail</bdi>"), "{}", tasks.body);
    let id = d.sql("select id from scylla.tasks");
    let task = site.get(&format!("/db/tasks/{id}"), &[&cookie]);
    site.pushed(&task, &[&cookie], ">cancelled<", || {
        d.sql("select scylla.cancel_tasks(array(select id from scylla.tasks))");
    });
    assert!(!site.log().contains("right"), "{}", site.log());
    // No role has such a name: the server is not asked, and nothing is remembered.
    let (other, token) = proof(&site.get("/login", &[]));
    let long = "r".repeat(100_000);
    let body = format!("token={token}&role={long}&password=x");
    let answer = site.call("POST", "/login", &[&other], &body);
    assert!(answer.status == 401 && !site.log().contains(&long), "{}", answer.status);
    let statuses: Vec<u16> = (0..5).map(|_| log_in("wrong").status).collect();
    assert_eq!(statuses[0], 401);
    assert_eq!(statuses[4], 429, "{statuses:?}");
    let token =
        tasks.body.split_once("name=\"token\" value=\"").unwrap().1.split('"').next().unwrap();
    assert_eq!(site.call("POST", "/logout", &[&cookie], &format!("token={token}")).status, 303);
    assert_eq!(site.get("/db/tasks", &[&cookie]).status, 303);
    let log = objects(&site.log());
    let logins: Vec<_> = log.iter().filter(|it| it["event"] == "login").collect();
    let succeeded = logins.iter().filter(|it| it["succeeded"] == true).count();
    assert!(succeeded == 1 && logins.len() > 3, "{log:?}");
    assert!(logins.iter().all(|it| it["role"] == "web_user" && it["peer"] == "127.0.0.1"));
    assert!(!site.log().contains("wrong"), "{log:?}");
}

/// Who did what, on how many; and no lease's token, on no page and in no line.
#[test]
fn actions_are_logged_and_tokens_are_nowhere() {
    let d = Database::of(shared());
    roles(&d);
    let id = d.sql("select id from scylla.tasks where queue = 'mail'");
    let token = d.sql(&format!("select token from scylla.own_task('{id}', 'w')"));
    let site = proxied(&d, &[]);
    let role = "X-Role: web_all";
    let by = "X-Forwarded-For: 10.9.9.9, 192.0.2.7";
    for path in ["/", "/db/workers", "/db/tasks", &format!("/db/tasks/{id}"), "/db/groups/list"] {
        assert!(!site.get(path, &[role]).body.contains(&token), "{path}");
    }
    let (cookie, form) = proof(&site.get("/db/tasks", &[role]));
    let act = |body: &str| {
        let body = format!("token={form}&{body}");
        site.call("POST", "/db/act", &[role, by, &cookie], &body)
    };
    assert_eq!(act("action=pause&name=mail").status, 303);
    assert_eq!(act("action=grant&name=web_none&queue=*&privilege=look").status, 403);
    let job = location(&act("action=cancel&filter=%7B%7D&count=2"));
    eventually("both are cancelled", || {
        site.get(&job, &[role]).body.contains("2 of 2 cancelled").then_some(())
    });
    let log = eventually("it is logged", || Some(objects(&site.log())).filter(|it| it.len() == 3));
    for (line, action, number) in [
        (&log[0], "pause", Some(1)),
        (&log[1], "grant", None),
        (&log[2], "cancel_matching", Some(2)),
    ] {
        let found = [&line["event"], &line["action"], &line["role"], &line["peer"]];
        assert_eq!(
            found.map(|it| it.as_str().unwrap()),
            ["action", action, "web_all", "192.0.2.7"]
        );
        assert_eq!((line["number"].as_i64(), line["error"].is_null()), (number, number.is_some()));
        assert!(line["time"].as_f64() > Some(1.7e9) && line["database"] == "db", "{line}");
    }
    assert!(!site.log().contains(&token) && !site.log().contains(&form));
}

#[test]
fn the_page_is_live_again_after_a_restart() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    let site = Site::start(&d, &["--role", "postgres"]);
    server.restart(&[]);
    d.sql("select scylla.submit('later')");
    let begun = std::time::Instant::now();
    eventually("the queue is shown", || site.get("/", &[]).body.contains("later").then_some(()));
    // Without viewers it looks each five seconds.
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    assert_eq!(site.get("/db/tasks", &[]).status, 200);
}
