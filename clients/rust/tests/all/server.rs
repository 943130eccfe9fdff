//! A server for all tests, servers of their own, and what tests do with them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use scylla_pg::{
    Client, Connector, Entry, Error, Worker, WorkerBuilder, WorkerHandle, WorkerStats,
    tokio_postgres::{Config, NoTls, Row, types::ToSql},
    uuid::Uuid,
};
use tokio::task::JoinHandle;

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run the tests by clients/rust/test"))
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of the run, which the script `test` removes, with all servers in it.
pub fn folder(name: &str) -> PathBuf {
    Path::new(&variable("SCYLLA_FOLDER")).join(format!("{name}-{}", Uuid::new_v4().simple()))
}

/// How to reach a server.
#[derive(Debug)]
pub struct Server {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    folder: PathBuf,
    own: bool,
}

/// The server of all tests.
pub fn shared() -> Server {
    Server {
        host: "127.0.0.1".into(),
        port: variable("PGPORT").parse().unwrap(),
        user: variable("PGUSER"),
        database: variable("PGDATABASE"),
        folder: Path::new(&variable("SCYLLA_FOLDER")).join("server"),
        own: false,
    }
}

impl Server {
    /// A server of the test's own, to be stopped and frozen. It is removed at the end.
    pub async fn own(lines: &[&str]) -> Self {
        let mut server = shared();
        server.folder = folder("server");
        server.own = true;
        let told = server.pg(&[&["start"], lines].concat());
        let port = told.split("PGPORT=").nth(1).unwrap();
        server.port = port.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        server.execute("create extension scylla", &[]).await;
        server
    }

    /// The same server, not to be removed.
    pub fn clone_address(&self) -> Self {
        Self {
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            database: self.database.clone(),
            folder: self.folder.clone(),
            own: false,
        }
    }

    /// `scripts/pg COMMAND FOLDER ARGUMENT...`
    fn pg(&self, arguments: &[&str]) -> String {
        let (command, rest) = arguments.split_first().unwrap();
        let output = Command::new(repository().join("scripts/pg"))
            .arg(command)
            .arg(&self.folder)
            .args(rest)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "pg {command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub async fn stop(&self) {
        self.run_pg("stop", "immediate").await;
    }

    pub async fn start(&self) {
        self.run_pg("restart", "fsync = off").await;
    }

    async fn run_pg(&self, command: &'static str, argument: &'static str) {
        assert!(self.own, "the server of all tests goes on");
        let server = self.clone_address();
        tokio::task::spawn_blocking(move || server.pg(&[command, argument])).await.unwrap();
    }

    /// The postmaster and its children.
    fn processes(&self) -> Vec<i32> {
        let file = fs::read_to_string(self.folder.join("postmaster.pid")).unwrap();
        let postmaster: i32 = file.lines().next().unwrap().parse().unwrap();
        let parent = format!("\nPPid:\t{postmaster}\n");
        let entries = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let children = entries.filter_map(|name| name.parse().ok()).filter(|pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.contains(&parent))
        });
        std::iter::once(postmaster).chain(children).collect()
    }

    /// No process of the server runs until it is dropped.
    pub fn freeze(&self) -> Frozen {
        assert!(self.own, "the server of all tests goes on");
        let processes = self.processes();
        for pid in &processes {
            kill(*pid, "STOP");
        }
        Frozen(processes)
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host(&self.host).port(self.port).user(&self.user).dbname(&self.database);
        config
    }

    pub fn url(&self) -> String {
        format!("postgres://{}@{}:{}/{}", self.user, self.host, self.port, self.database)
    }

    pub fn connector(&self) -> Connector {
        self.config().into()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.connector())
    }

    pub async fn connect(&self) -> scylla_pg::tokio_postgres::Client {
        let (client, connection) = self.config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let client = self.connect().await;
        client.query(sql, params).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub async fn number(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> i64 {
        self.execute(sql, params).await[0].get(0)
    }

    /// How many tasks of a queue have a status.
    pub async fn with_status(&self, queue: &str, status: &str) -> i64 {
        let sql = "select count(*) from scylla.tasks where queue = $1 and status = $2";
        self.number(sql, &[&queue, &status]).await
    }

    /// How many tasks of a queue were owned at once, at most; each has been tried once. From their
    /// history: to count those that run looks at the board in pieces, not at one moment.
    pub async fn most_leases(&self, queue: &str) -> i64 {
        let sql = "select max(leases)::bigint from (
                select sum(change) over (order by time, change) as leases from scylla.tasks,
                    lateral (values
                        ((history -> -1 ->> 'time')::timestamptz, 1), (updated, -1)
                    ) as at (time, change)
                where queue = $1) as counted";
        self.number(sql, &[&queue]).await
    }

    /// A database of its own on this server.
    pub async fn database(&self, extension: bool) -> Self {
        let name = format!("d{}", Uuid::new_v4().simple());
        self.execute(&format!("create database {name}"), &[]).await;
        let mut database = self.clone_address();
        database.database = name;
        if extension {
            database.execute("create extension scylla", &[]).await;
        }
        database
    }

    /// The server processes of a worker's connections.
    pub async fn connections(&self, worker: &str) -> Vec<i32> {
        // the server cuts the name at 63 bytes
        let name: String = format!("scylla-pg rust/{} {worker}", env!("CARGO_PKG_VERSION"))
            .chars()
            .take(63)
            .collect();
        let sql = "select pid from pg_stat_activity where application_name = $1";
        self.execute(sql, &[&name]).await.iter().map(|row| row.get(0)).collect()
    }

    pub async fn task(&self, id: Uuid) -> Entry {
        self.client().task(id).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.own {
            self.pg(&["remove"]);
        }
    }
}

pub struct Frozen(Vec<i32>);

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            kill(*pid, "CONT");
        }
    }
}

/// Sends a signal to a process that may have ended; a negative number is a group of processes.
pub fn kill(pid: i32, signal: &str) {
    // procps 4.0.7 refuses a group after `-s KILL`
    let _ = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg("--")
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// The name of a queue that no other test uses.
pub fn queue() -> String {
    format!("q-{}", Uuid::new_v4().simple())
}

/// Waits until something holds, and gives what it gave.
pub async fn until<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = holds().await {
            return value;
        }
        assert!(Instant::now() < end, "not within 30 seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A worker that runs in this process.
pub struct Serving {
    pub handle: WorkerHandle,
    running: JoinHandle<Result<(), Error>>,
}

pub fn serve(builder: WorkerBuilder) -> Serving {
    let worker = builder.build().unwrap();
    let handle = worker.handle();
    Serving { handle, running: tokio::spawn(worker.run_until(std::future::pending())) }
}

impl Serving {
    pub fn stats(&self) -> WorkerStats {
        self.handle.stats()
    }

    /// Waits until its counts are as they should be.
    pub async fn until(&self, what: &str, holds: impl Fn(WorkerStats) -> bool) {
        until(&format!("{what}: {:?}", self.stats()), async || holds(self.stats()).then_some(()))
            .await;
    }

    pub async fn stop(self) -> WorkerStats {
        self.handle.stop();
        self.ended().await
    }

    pub async fn ended(self) -> WorkerStats {
        let ended = tokio::time::timeout(Duration::from_secs(40), self.running).await;
        ended
            .expect("the worker ends")
            .expect("the worker does not panic")
            .expect("the worker ends well");
        self.handle.stats()
    }
}

/// A worker of a queue of the shared server.
pub fn worker(queue: &str) -> WorkerBuilder {
    Worker::builder(shared().connector()).queue(queue).grace(Duration::ZERO)
}

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
