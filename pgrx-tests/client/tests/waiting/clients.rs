//! Which clients and contexts can wait.

use crate::*;

/// A procedure that waits is refused inside a transaction block, a function or a procedure.
#[test]
fn waiting_needs_its_own_transaction() {
    let database = slow();
    let mut s = database.connect();
    let call = "call scylla.wait_for_work('q', '0')";
    s.run(call);
    s.run(
        "create function f() returns void language plpgsql as $$
           declare a boolean; begin call scylla.wait_for_work('q', '0', null, a); end $$",
    );
    s.run(
        "create procedure p(inout a boolean) language plpgsql as $$
           begin call scylla.wait_for_work('q', '0', null, a); end $$",
    );
    s.run("call p(null)");
    for script in [
        &format!("begin; {call}"),
        "begin; call scylla.wait_for_any('{q}', '0')",
        &format!("select 1; {call}"),
        "select f()",
        "begin; call p(null)",
        "do $$ begin perform f(); end $$",
        "do $$ declare a boolean; begin begin call scylla.wait_for_work('q', '0', null, a);
         exception when no_data_found then null; end; end $$",
    ] {
        assert_eq!(s.refused(script), "25001", "{script}");
        s.run("rollback");
    }
    assert_eq!(pipelined(&database, &["select 1", call]), Some("25001".to_owned()));
    assert_eq!(pipelined(&database, &[call, "select 1"]), None, "its first command is alone yet");
}

/// The error of several statements that are sent before one Sync message.
fn pipelined(database: &Database, statements: &[&str]) -> Option<String> {
    use std::io::{Read, Write};
    let (folder, port) = database.reach();
    let mut stream =
        std::os::unix::net::UnixStream::connect(format!("{folder}/.s.PGSQL.{port}")).unwrap();
    let message = |kind: &[u8], body: &[u8]| {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [kind, &length, body].concat()
    };
    let who = format!("user\0postgres\0database\0{}\0\0", database.name);
    let mut sent = message(b"", &[&196_608u32.to_be_bytes(), who.as_bytes()].concat());
    for sql in statements {
        sent.extend(message(b"P", format!("\0{sql}\0\0\0").as_bytes()));
        sent.extend(message(b"B", &[0; 8]));
        sent.extend(message(b"E", &[0; 5]));
    }
    sent.extend(message(b"S", b""));
    sent.extend(message(b"X", b""));
    stream.write_all(&sent).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    let error = text.split('\0').find(|field| field.len() == 6 && field.starts_with('C'));
    error.map(|field| field[1..].to_owned())
}

/// `wait_for_work` in one terminal returns when `submit` runs in another.
#[test]
fn psql_waits_and_returns_at_once() {
    let database = slow();
    let waiter = psql(&database, &["call scylla.wait_for_work('mail')", "select 'woken'"]);
    let mut s = database.connect();
    psql_waits(&mut s);
    s.submit("mail");
    let output = promptly(|| waiter.wait_with_output().unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t\nwoken\n");
}

/// The procedures accept the simple protocol, positional literals and named notation.
#[test]
fn every_notation_is_accepted() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("q", "post_result => true");
    let lease = s.own_one("q");
    s.complete(&lease);
    s.submit("q");
    for call in [
        "wait_for_work('q')",
        "wait_for_work('q', '1 s')",
        "wait_for_work('q', '1 s', null)",
        "wait_for_work('q', '1 s', null, null)",
        "wait_for_work(queue => 'q', available => null)",
        "wait_for_work('q', actions => array[''])",
        "wait_for_any('{q}')",
        "wait_for_any(array['p', 'q'], '1 s', null, null)",
        "wait_for_any(queues => '{p,q}', timeout => '1 s', actions => NULL, queue => NULL)",
        &format!("wait_for_task('{id}')"),
        &format!("wait_for_task('{id}', '1 s', null, null)"),
        &format!("wait_for_task('{id}', timeout => '1 minute', status => NULL, result => NULL)"),
    ] {
        s.run(&format!("CALL scylla.{call}"));
        assert_eq!(s.query(&format!("CALL scylla.{call}"), &[]).unwrap().len(), 1, "{call}");
    }
}

/// A PgBouncer in transaction mode, stopped when dropped.
struct Bouncer {
    process: Child,
    folder: std::path::PathBuf,
}

impl Bouncer {
    fn before(database: &Database) -> Bouncer {
        let (host, port) = database.reach();
        let parent = std::env::var("SCYLLA_CLIENT_FOLDER").unwrap_or("/var/tmp".to_owned());
        let folder = std::path::Path::new(&parent).join(format!("bouncer-{}", database.name));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, mode).expect("a folder for the server's user");
        let configuration = folder.join("bouncer.ini");
        let lines = format!(
            "[databases]\n* = host={host} port={port} user=postgres\n[pgbouncer]\n\
             listen_addr =\nlisten_port = {}\nunix_socket_dir = {}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 8\nserver_reset_query_always = 0\n\
             pidfile = {}\n",
            Bouncer::PORT,
            folder.display(),
            folder.join("pid").display(),
        );
        std::fs::write(&configuration, lines).expect("its configuration");
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .find(|it| std::path::Path::new(it).exists())
            .expect("pgbouncer: scripts/pg deps pgbouncer installs it");
        let process = Server::spawn(program, &["-q", configuration.to_str().unwrap()]);
        let bouncer = Bouncer { process, folder };
        eventually(seconds(10), "pgbouncer accepts connections", || bouncer.connect(database).ok());
        bouncer
    }

    /// The address of its socket, in its own folder.
    const PORT: u16 = 6432;

    fn reach(&self) -> (String, u16) {
        (self.folder.to_str().unwrap().to_owned(), Bouncer::PORT)
    }

    fn connect(&self, database: &Database) -> Result<postgres::Client, postgres::Error> {
        let (host, port) = self.reach();
        let mut config = postgres::Config::new();
        config.host(&host).port(port).user("postgres").dbname(&database.name);
        config.connect(postgres::NoTls)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<i32>() {
            // SAFETY: a process that this test started
            unsafe { libc::kill(pid, libc::SIGTERM) };
            let _ = self.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The result of a command in the simple protocol: the values of its first row.
fn simply(
    client: &mut postgres::Client,
    sql: &str,
) -> Result<Vec<Option<String>>, postgres::Error> {
    let rows = client.simple_query(sql)?;
    let row = rows.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(row.map_or(vec![], |row| (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()))
}

/// Waiting works through PgBouncer in transaction mode, where each command may use another
/// connection.
#[test]
fn waiting_works_through_a_pooler() {
    let database = slow();
    let bouncer = Bouncer::before(&database);
    let mut s = database.connect();
    let id = s.submit_with("t", "post_result => true");
    let lease = s.own_one("t");
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let mut client = bouncer.connect(&database).unwrap();
            thread::spawn(move || simply(&mut client, "call scylla.wait_for_work('q', '20 s')"))
        })
        .collect();
    let mut client = bouncer.connect(&database).unwrap();
    let call = format!("call scylla.wait_for_task('{id}', '20 s')");
    let waiter = thread::spawn(move || simply(&mut client, &call));
    let mut client = bouncer.connect(&database).unwrap();
    let call = "call scylla.wait_for_any('{a,b}', '20 s', '{x,y}')";
    let chooser = thread::spawn(move || simply(&mut client, call));
    waiting_backends(&mut s, 7);
    s.submit_with("b", "action => 'y'");
    assert_eq!(chooser.join().unwrap().unwrap(), [Some("b".to_owned())]);
    s.submit_many("q", 5);
    s.complete(&lease);
    for worker in workers {
        assert_eq!(worker.join().unwrap().unwrap(), [Some("t".to_owned())]);
    }
    assert_eq!(waiter.join().unwrap().unwrap(), [Some("completed".to_owned()), None]);

    let mut client = bouncer.connect(&database).unwrap();
    let refused = simply(&mut client, "begin; call scylla.wait_for_work('q')");
    assert_eq!(code(&refused.unwrap_err()), "25001");
    s.own("w", "q", 5);
    let mut gone = psql_at(bouncer.reach(), &database, &["call scylla.wait_for_work('q', '1 h')"]);
    waiting_backends(&mut s, 1);
    gone.kill().unwrap();
    gone.wait().unwrap();
    waiting_backends(&mut s, 0);
}

fn waiting_backends(s: &mut Session, n: i64) {
    let look = "select count(*) from pg_stat_activity where backend_type = 'client backend'
        and datname = current_database() and wait_event_type = 'Extension'";
    eventually(seconds(3), "so many sessions wait", || (s.count(look) == n).then_some(()));
}

/// Waiting works from psycopg in autocommit, with parameters. Its pipeline mode is refused.
#[test]
fn waiting_works_from_psycopg() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("q", "post_result => true");
    let script = "
import sys, psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as c:
    print(c.execute('call scylla.wait_for_work(%s, %s)', ('q', '20 s')).fetchone())
    print(c.execute('call scylla.wait_for_any(%s, %s)', (['p', 'q'], '20 s')).fetchone())
    print(c.execute('call scylla.wait_for_task(%s, timeout => %s)', (sys.argv[2], '20 s')).fetchone())
    try:
        with c.pipeline():
            c.execute('select 1')
            c.execute('call scylla.wait_for_work(%s)', ('q',))
    except psycopg.Error as e:
        print(e.sqlstate)
";
    let (host, port) = database.reach();
    let reach = format!("host={host} port={port} user=postgres dbname={}", database.name);
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script, &reach, &id.to_string()]).stdout(Stdio::piped());
    let python = command.spawn().expect("python3: scripts/pg deps python3-psycopg installs it");
    waiting_backends(&mut s, 1);
    let lease = s.own_one("q");
    let sql = "select scylla.return_task($1, $2, result => '[1]')";
    s.value::<String>(sql, &[&id, &lease.token]);
    let output = python.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "(True,)\n('q',)\n('completed', [1])\n25001\n");
}
