//! Private servers, their databases, and the program's runs.

use serde_json::Value;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_scylla-pg");

/// One server, in a folder that `test` removes.
pub struct Server {
    pub folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// What one run has written.
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

pub fn pg(arguments: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pg");
    let output = Command::new(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Server {
    pub fn start(lines: &[&str]) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent = env::var("SCYLLA_FOLDER").expect("tools/scylla-pg/test runs the tests");
        let folder = format!("{parent}/server{}", COUNT.fetch_add(1, Ordering::Relaxed));
        pg(&[&["start", &folder], lines].concat());
        let mut server = Server { folder: folder.into(), environment: Vec::new() };
        server.look();
        server
    }

    /// Reads where the server listens.
    fn look(&mut self) {
        let output = pg(&["env", self.folder.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        let pairs = text.trim().trim_start_matches("export ").split(' ');
        let pair = |it: &str| it.split_once('=').map(|(name, value)| (name.into(), value.into()));
        self.environment = pairs.filter_map(pair).collect();
    }

    pub fn restart(&self, lines: &[&str]) {
        pg(&[&["restart", self.folder.to_str().unwrap()], lines].concat());
    }

    /// As by a crash.
    pub fn kill(&self) {
        pg(&["kill", self.folder.to_str().unwrap()]);
    }

    pub fn variable(&self, name: &str) -> &str {
        &self.environment.iter().find(|(it, _)| it == name).unwrap().1
    }

    /// A command with this server's environment, and a home of its own.
    pub fn command(&self, program: &str, database: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned()).env("PGDATABASE", database);
        command.env("HOME", &self.folder);
        command
    }

    fn psql(&self, database: &str) -> Command {
        let mut command = self.command(&format!("{}/psql", self.variable("SCYLLA_BIN")), database);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command
    }
}

/// A server without what a test would change for others.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        Server::start(&[
            "scylla.board_size = 8192",
            // A scheduler for the database of each test, which stays.
            "max_worker_processes = 200",
            "max_connections = 100",
        ])
    })
}

/// A database of its own for a test.
pub struct Database<'a> {
    pub server: &'a Server,
    pub name: String,
}

impl<'a> Database<'a> {
    pub fn of(server: &'a Server) -> Database<'a> {
        let database = Database::bare(server);
        database.sql("create extension scylla");
        database
    }

    /// Without the extension.
    pub fn bare(server: &'a Server) -> Database<'a> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("d{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let postgres = Database { server, name: "postgres".into() };
        postgres.sql(&format!("create database {name}"));
        Database { server, name }
    }

    /// What a query gives, as psql prints it.
    #[track_caller]
    pub fn sql(&self, text: &str) -> String {
        let output = self.server.psql(&self.name).args(["-c", text]).output().unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A session that stays open.
    pub fn session(&self) -> Session {
        let mut command = self.server.psql(&self.name);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Session { child, lines }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.server.command(PROGRAM, &self.name);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// Runs the program as a role.
    pub fn run_as(&self, role: &str, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).env("PGUSER", role))
    }

    /// What the program writes, which must have succeeded.
    #[track_caller]
    pub fn done(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{arguments:?}");
        ran.out.trim_end().to_owned()
    }

    /// The objects that the program writes with `--json`.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Vec<Value> {
        objects(&self.run(&[arguments, &["--json"]].concat()).out)
    }

    /// A command line on a terminal.
    pub fn terminal(&self, line: &str) -> Command {
        let mut command = self.server.command("script", &self.name);
        command.args(["-qec", line, "/dev/null"]).env("TERM", "xterm");
        command
    }

    /// Runs the program on a terminal, whose keys these are. What it writes is in `out`.
    pub fn on_terminal(&self, arguments: &[&str], keys: &str) -> Ran {
        let mut command = self.terminal(&format!("{PROGRAM} {}", arguments.join(" ")));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            status: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::new(),
        }
    }
}

pub fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// One psql, which ends with this value.
pub struct Session {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Session {
    /// Runs a command to its end.
    pub fn run(&mut self, sql: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{sql};\n\\echo done").unwrap();
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "{sql} failed");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Waits until something is so.
#[track_caller]
pub fn eventually<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(50));
    }
}

pub fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap();
}
