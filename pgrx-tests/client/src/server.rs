use crate::address::{Address, config};
use crate::database::Database;
use crate::session::Session;
use crate::wait::{eventually, seconds};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A private server with scylla preloaded, in its own folder, which is removed with this value.
pub struct Server {
    folder: PathBuf,
    address: Address,
}

static COUNT: AtomicU32 = AtomicU32::new(0);
static SHARED: OnceLock<Server> = OnceLock::new();

/// Statics are never dropped, so the shared server is removed when the process exits.
extern "C" fn remove_shared() {
    if let Some(server) = SHARED.get() {
        server.remove();
    }
}

impl Server {
    /// A server in a folder that does not exist yet.
    fn planned() -> Server {
        let parent =
            std::env::var_os("SCYLLA_CLIENT_FOLDER").map_or("/var/tmp".into(), PathBuf::from);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Server {
            folder: parent.join(format!("scylla-client-{}-{n}", std::process::id())),
            address: Address::default(),
        }
    }

    /// Makes a cluster, adds these lines to its configuration, and starts it.
    pub fn start(lines: &[&str]) -> Server {
        let server = Server::planned();
        // STATEMENT lines would put tokens that a test wrote as literals into the log
        let ours = [
            "max_worker_processes = 40",
            // The backends of a test that has ended may be there for a while.
            "max_connections = 200",
            // Tests kill processes, not machines: what was written is there without the disk.
            "fsync = off",
            // Leases end when a test says so, however slow the machine.
            "scylla.lease_timeout = '1 h'",
            "max_prepared_transactions = 4",
            "log_min_error_statement = panic",
            "log_line_prefix = '%m [%p] %b %e '",
            "idle_in_transaction_session_timeout = '5min'",
            // each mechanism alone, unless a test says otherwise
            "scylla.max_tries = 0",
            "scylla.retry_interval = 0",
        ];
        server.launch(&[&ours, lines].concat());
        server
    }

    /// A hot standby that replicates this server.
    pub fn standby(&self) -> Server {
        let standby = self.backup(&["-R"]);
        standby.launch(&[]);
        standby
    }

    /// A physical copy of this server, which is not started yet. `options`: of pg_basebackup.
    pub fn backup(&self, options: &[&str]) -> Server {
        let copy = Server::planned();
        let folder = copy.folder.to_str().unwrap();
        self.tool("pg_basebackup", &[&["-D", folder, "-N", "-c", "fast"], options].concat());
        copy
    }

    /// Runs one of PostgreSQL's client programs as the server's user and returns its output. Panics
    /// when the program fails.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let (host, port) = self.address.read().unwrap().clone();
        let reach = self.pg("env", &[]);
        let program = format!("{}/{name}", word(&reach, "SCYLLA_BIN="));
        let connection = ["-h", &host, "-p", &port.to_string(), "-U", "postgres"];
        let mut command = Command::new(SCRIPT);
        succeed(command.arg("run-as-server").arg(program).args(connection).args(arguments))
    }

    /// A path in the server's folder, which the server's user can read and write.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Sets a setting in the configuration and reloads it.
    pub fn configure(&self, setting: &str, value: &str) {
        let mut session = self.connect();
        session.run(&format!("alter system set {setting} = '{value}'"));
        session.run("select pg_reload_conf()");
    }

    /// Restarts the server as pg_upgrade does.
    pub fn restart_for_upgrade(&self) {
        let reach = self.pg("env", &[]);
        self.stop("fast");
        let program = format!("{}/pg_ctl", word(&reach, "SCYLLA_BIN="));
        let (data, log) = (self.folder.to_str().unwrap(), self.path("server.log"));
        let options = ["-D", data, "-l", log.to_str().unwrap(), "-o", "-b", "-w", "-s", "start"];
        succeed(Command::new(SCRIPT).arg("run-as-server").arg(program).args(options));
    }

    /// Upgrades this server to another cluster with pg_upgrade, and stops this one.
    pub fn upgrade(&self) -> Server {
        let other = Server::planned();
        other.launch(&[]);
        other.stop("fast");
        let reach = self.pg("env", &[]);
        let bin = word(&reach, "SCYLLA_BIN=");
        self.stop("fast");
        let [from, to] = [&self.folder, &other.folder].map(|it| it.display().to_string());
        let script = format!(
            "cd {to} && {bin}/pg_upgrade -U postgres -b {bin} -B {bin} -d {from} -D {to} -s {to}"
        );
        succeed(Command::new(SCRIPT).args(["run-as-server", "bash", "-c", &script]));
        other.launch(&[]);
        other
    }

    /// The server that all tests of this binary share. No test may crash it.
    pub fn shared() -> &'static Server {
        SHARED.get_or_init(|| {
            // SAFETY: registers a plain function without arguments
            unsafe { libc::atexit(remove_shared) };
            Server::start(&[])
        })
    }

    /// Starts the server again after `kill` or `stop`.
    pub fn start_again(&self) {
        self.launch(&[]);
    }

    /// Starts the server again with more lines in its configuration.
    pub fn start_with(&self, lines: &[&str]) {
        self.launch(lines);
    }

    fn launch(&self, lines: &[&str]) {
        let answer = self.pg("start", lines);
        let port = word(&answer, "PGPORT=").parse().expect("a port");
        *self.address.write().unwrap() = (word(&answer, "PGHOST=").to_owned(), port);
    }

    /// `mode`: fast or immediate.
    pub fn stop(&self, mode: &str) {
        self.pg("stop", &[mode]);
    }

    /// `kill -9` of the postmaster; returns when all of its children are gone.
    pub fn kill(&self) {
        self.pg("kill", &[]);
    }

    /// Stops the server and deletes its folder.
    pub fn remove(&self) {
        if std::env::var_os("SCYLLA_KEEP").is_some() {
            eprintln!("kept: {}", self.folder.display());
        } else {
            self.pg("remove", &[]);
        }
    }

    /// Whether a package of the system is there, or could be installed.
    pub fn has_package(name: &str) -> bool {
        let answer = Command::new(SCRIPT).args(["deps", name]).output();
        answer.expect("scripts/pg runs").status.success()
    }

    /// Runs a program as the server's user.
    pub fn spawn(program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(SCRIPT);
        command.arg("run-as-server").arg(program).args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("scripts/pg runs")
    }

    /// The folder of this server's programs.
    pub fn bin(&self) -> String {
        word(&self.pg("env", &[]), "SCYLLA_BIN=").to_owned()
    }

    fn pg(&self, command: &str, arguments: &[&str]) -> String {
        succeed(Command::new(SCRIPT).arg(command).arg(&self.folder).args(arguments))
    }

    /// A fresh database with the extension.
    pub fn database(&self) -> Database {
        let database = self.bare_database();
        database
            .connect()
            .batch_execute("create extension scylla")
            .expect("create extension scylla");
        database
    }

    /// A fresh database without the extension.
    pub fn bare_database(&self) -> Database {
        Database::create(self.address.clone())
    }

    /// A superuser's session in the database `postgres`.
    pub fn connect(&self) -> Session {
        self.try_connect().expect("connect")
    }

    pub fn try_connect(&self) -> Result<Session, postgres::Error> {
        Session::open(&config(&self.address, "postgres"))
    }

    /// Waits until a server that recovers from a crash accepts connections.
    pub fn wait_until_up(&self) {
        eventually(seconds(60), "the server accepts connections", || {
            let mut session = self.try_connect().ok()?;
            let is_up = "select not pg_is_in_recovery()";
            session.try_value::<bool>(is_up, &[]).ok()?.then_some(())
        });
    }

    /// Kills a process of this server.
    pub fn signal(&self, pid: i32, signal: i32) {
        assert!(pid > 1);
        // SAFETY: no memory is involved
        unsafe { libc::kill(pid, signal) };
    }

    /// Kills a process with `kill -9`, so that the postmaster restarts all others. Returns when the
    /// server accepts connections again.
    pub fn kill_process(&self, pid: i32) {
        let mut canary = self.connect();
        let started = "select pg_postmaster_start_time()::text";
        let before = canary.text(started);
        self.signal(pid, libc::SIGKILL);
        eventually(seconds(30), "all sessions are gone", || canary.is_dead().then_some(()));
        self.wait_until_up();
        assert_eq!(self.connect().text(started), before, "the postmaster survived");
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(
            &fs::read(self.folder.join("server.log")).expect("the server's log"),
        )
        .into_owned()
    }

    /// Asserts that the log has no PANIC, no failed assertion, no internal error and no resource
    /// leak.
    #[track_caller]
    pub fn assert_log_is_clean(&self) {
        self.assert_log_has_only(None);
    }

    /// The same, but lines with these words are known.
    #[track_caller]
    pub fn assert_log_has_only(&self, known: Option<&str>) {
        let log = self.log();
        let is_known = |line: &str| known.is_some_and(|words| line.contains(words));
        for sign in [
            "PANIC:",
            "TRAP:",
            " XX000 ",
            " leak: ",
            "terminated by signal 11",
            "terminated by signal 6",
        ] {
            let is_bad = |line: &&str| line.contains(sign) && !is_known(line);
            let bad: Vec<&str> = log.lines().filter(is_bad).take(5).collect();
            assert!(bad.is_empty(), "{sign} in the server's log: {bad:#?}");
        }
    }

    /// The process ids of scylla's background workers that have no database: the launcher.
    #[track_caller]
    pub fn launchers(&self) -> Vec<i32> {
        let sql = "select coalesce(array_agg(pid order by pid), '{}') from pg_stat_activity
                   where backend_type like 'scylla%' and datname is null";
        self.connect().value(sql, &[])
    }

    /// Ends the launcher by a signal. Returns when another one runs.
    #[track_caller]
    pub fn replace_launcher(&self, signal: i32) {
        let before = self.launchers();
        before.iter().for_each(|pid| self.signal(*pid, signal));
        eventually(seconds(10), "the launcher is back", || {
            let now = self.launchers();
            (!now.is_empty() && now.iter().all(|pid| !before.contains(pid))).then_some(())
        });
    }

    /// Makes the launcher check the databases now.
    #[track_caller]
    pub fn call_launcher(&self) {
        let mut session = self.connect();
        session.run("create database called template template0");
        session.run("drop database called");
    }

    /// Terminates the scheduler of `database`. Returns when it has ended.
    pub fn terminate_scheduler(&self, database: &Database) {
        let pid = database.scheduler();
        let mut session = self.connect();
        session.value::<bool>("select pg_terminate_backend($1)", &[&pid]);
        eventually(seconds(10), "the scheduler obeys SIGTERM", || {
            (session.value::<i64>("select count(*) from pg_stat_activity where pid = $1", &[&pid])
                == 0)
                .then_some(())
        });
    }
}

impl Database {
    /// The same database on another server, such as a standby. It is removed with that server.
    pub fn on(&self, server: &Server) -> Database {
        Database { address: server.address.clone(), name: self.name.clone() }
    }

    /// From now on, sessions of this database are opened on another server, which took over.
    pub fn move_to(&self, server: &Server) {
        let there = server.address.read().unwrap().clone();
        *self.address.write().unwrap() = there;
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pg");

/// Runs a command and returns what it printed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("scripts/pg runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A value from the line that `scripts/pg start` prints.
fn word<'a>(answer: &'a str, name: &str) -> &'a str {
    let found = answer.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // a second panic would abort the process
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let log = self.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(25)..];
                println!("the server's log ends with\n{}", last.join("\n"));
            }));
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.remove()));
        } else {
            self.remove();
        }
    }
}
