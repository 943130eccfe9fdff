use crate::{eventually, seconds};
use postgres::error::DbError;
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Config, Error, NoTls, Row};
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One connection.
pub struct Session {
    client: Client,
    pub pid: i32,
    notices: Arc<Mutex<Vec<DbError>>>,
}

/// One row of `own_tasks`.
#[derive(Debug, Clone)]
pub struct Lease {
    pub id: Uuid,
    pub token: Uuid,
    pub action: String,
    pub spec: Value,
    pub priority: i64,
    pub tries: i32,
    pub num_failures: i32,
    /// From the database's clock to the deadline; `None` when the lease never expires.
    pub seconds_left: Option<f64>,
}

/// The SQLSTATE of an error; `lost` when the connection failed.
pub fn code(error: &Error) -> String {
    error.code().map_or("lost".to_owned(), |state| state.code().to_owned())
}

/// An error: the SQLSTATE, the message, and where and why, if the server says so.
pub fn explain(error: &Error) -> String {
    let Some(complaint) = error.as_db_error() else { return error.to_string() };
    let first = format!("{}: {}", complaint.code().code(), complaint.message());
    [complaint.detail(), complaint.where_()]
        .into_iter()
        .flatten()
        .fold(first, |all, it| all + "\n" + it)
}

/// Whether the connection was lost, for any reason.
pub fn is_lost(error: &Error) -> bool {
    error.is_closed()
        || matches!(code(error).as_str(), "lost" | "57P01" | "57P02" | "57P03")
        || code(error).starts_with("08")
}

/// The server's error. Panics when the call succeeded or the connection broke.
#[track_caller]
pub fn failure<T>(result: Result<T, Error>, what: &str) -> DbError {
    match result {
        Ok(_) => panic!("succeeded: {what}"),
        Err(error) => error.as_db_error().cloned().unwrap_or_else(|| panic!("{what}: {error}")),
    }
}

impl Deref for Session {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

const COLUMNS: &str = "id, token, action, spec, priority, tries, num_failures, \
                       extract(epoch from deadline - clock_timestamp())::float8";

fn lease(row: &Row) -> Lease {
    Lease {
        id: row.get(0),
        token: row.get(1),
        action: row.get(2),
        spec: row.get(3),
        priority: row.get(4),
        tries: row.get(5),
        num_failures: row.get(6),
        seconds_left: row.get(7),
    }
}

impl Session {
    pub(crate) fn open(config: &Config) -> Result<Session, Error> {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let keep = notices.clone();
        let mut config = config.clone();
        config.notice_callback(move |notice| keep.lock().unwrap().push(notice));
        let mut client = config.connect(NoTls)?;
        let pid = client.query_one("select pg_backend_pid()", &[])?.get(0);
        Ok(Session { client, pid, notices })
    }

    /// The warnings since the last call.
    pub fn warnings(&mut self) -> Vec<DbError> {
        let mut all = std::mem::take(&mut *self.notices.lock().unwrap());
        all.retain(|it| it.severity() == "WARNING");
        all
    }

    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        if let Err(error) = self.client.batch_execute(sql) {
            panic!("{sql}: {}", explain(&error));
        }
    }

    #[track_caller]
    pub fn value<T: FromSqlOwned>(&mut self, sql: &str, params: Params) -> T {
        match self.try_value(sql, params) {
            Ok(value) => value,
            Err(error) => panic!("{sql}: {}", explain(&error)),
        }
    }

    pub fn try_value<T: FromSqlOwned>(&mut self, sql: &str, params: Params) -> Result<T, Error> {
        self.client.query_one(sql, params).and_then(|row| row.try_get(0))
    }

    #[track_caller]
    pub fn text(&mut self, sql: &str) -> String {
        self.value(sql, &[])
    }

    #[track_caller]
    pub fn count(&mut self, sql: &str) -> i64 {
        self.value(sql, &[])
    }

    #[track_caller]
    pub fn refusal(&mut self, sql: &str, params: Params) -> DbError {
        let answer = self.client.query(sql, params);
        self.settle();
        failure(answer, sql)
    }

    /// The SQLSTATE of the error that a script raises.
    #[track_caller]
    pub fn refused(&mut self, sql: &str) -> String {
        let answer = self.client.batch_execute(sql);
        self.settle();
        failure(answer, sql).code().code().to_owned()
    }

    /// The server reports an error before it rolls back. Another round trip waits for the rollback.
    fn settle(&mut self) {
        self.client.batch_execute("").expect("the connection lives");
    }

    /// Checks that some B-tree indexes have the right entry for each row; returns how many there
    /// are. `which` is a condition on `pg_index i`.
    #[track_caller]
    pub fn check_indexes(&mut self, which: &str) -> i64 {
        self.run("create extension if not exists amcheck");
        self.count(&format!(
            "select count(bt_index_check(i.indexrelid, true)::text)
             from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam
             where {which} and a.amname = 'btree' and c.relkind = 'i'"
        ))
    }

    /// Waits until so many leases would survive a crash.
    #[track_caller]
    pub fn until_leases_are_written(&mut self, number: i64) {
        eventually(seconds(5), "the leases are written", || {
            (self.count("select count(*) from scylla.lease") == number).then_some(())
        });
        // The scheduler's commit does not wait for the disk.
        self.run("checkpoint");
    }

    pub fn is_dead(&mut self) -> bool {
        self.client.batch_execute("select 1").is_err()
    }

    // ---- the contract ----

    #[track_caller]
    pub fn submit(&mut self, queue: &str) -> Uuid {
        self.value("select scylla.submit($1)", &[&queue])
    }

    /// Submits with `options`: more arguments, as in `priority => 3, action => 'a'`.
    #[track_caller]
    pub fn submit_with(&mut self, queue: &str, options: &str) -> Uuid {
        self.value(&format!("select scylla.submit($1, {options})"), &[&queue])
    }

    #[track_caller]
    pub fn submit_many(&mut self, queue: &str, n: i32) -> Vec<Uuid> {
        let sql = "select id from scylla.submit_tasks(
                     (select jsonb_agg(jsonb_build_object('queue', $1::text)) from generate_series(1, $2::int)))";
        self.client
            .query(sql, &[&queue, &n])
            .expect("submit_tasks")
            .iter()
            .map(|row| row.get(0))
            .collect()
    }

    #[track_caller]
    pub fn own(&mut self, worker: &str, queue: &str, max_tasks: i32) -> Vec<Lease> {
        self.own_with(worker, queue, max_tasks, "timeout => null")
    }

    #[track_caller]
    pub fn own_with(
        &mut self,
        worker: &str,
        queue: &str,
        max_tasks: i32,
        options: &str,
    ) -> Vec<Lease> {
        match self.try_own(worker, queue, max_tasks, options) {
            Ok(leases) => leases,
            Err(error) => panic!("own_tasks({options}): {}", explain(&error)),
        }
    }

    pub fn try_own(
        &mut self,
        worker: &str,
        queue: &str,
        max_tasks: i32,
        options: &str,
    ) -> Result<Vec<Lease>, Error> {
        let sql = format!("select {COLUMNS} from scylla.own_tasks($1, $2, $3, {options})");
        Ok(self.client.query(&sql, &[&worker, &queue, &max_tasks])?.iter().map(lease).collect())
    }

    pub fn try_own_any(
        &mut self,
        worker: &str,
        queues: &[&str],
        max_tasks: i32,
        options: &str,
    ) -> Result<Vec<Lease>, Error> {
        let sql = format!("select {COLUMNS} from scylla.own_any($1, $2, $3, {options})");
        Ok(self.client.query(&sql, &[&worker, &queues, &max_tasks])?.iter().map(lease).collect())
    }

    /// Owns a task, which must be ready.
    #[track_caller]
    pub fn own_one(&mut self, queue: &str) -> Lease {
        self.own_one_with(queue, "timeout => null")
    }

    #[track_caller]
    pub fn own_one_with(&mut self, queue: &str, options: &str) -> Lease {
        let leases = self.own_with("w", queue, 1, options);
        assert_eq!(leases.len(), 1, "a task of {queue} is ready");
        leases.into_iter().next().unwrap()
    }

    pub fn try_own_task(&mut self, id: Uuid) -> Result<Lease, Error> {
        let sql = format!("select {COLUMNS} from scylla.own_task($1, 'w')");
        Ok(lease(&self.client.query_one(&sql, &[&id])?))
    }

    #[track_caller]
    pub fn extend(&mut self, lease: &Lease) -> bool {
        self.value("select scylla.extend($1, $2)", &[&lease.id, &lease.token])
    }

    #[track_caller]
    pub fn extend_with(&mut self, lease: &Lease, options: &str) -> bool {
        self.value(&format!("select scylla.extend($1, $2, {options})"), &[&lease.id, &lease.token])
    }

    /// Returns a task; passes `an_error` if it is aborted.
    pub fn return_task(&mut self, lease: &Lease, outcome: &str) -> Result<String, Error> {
        let error = (outcome == "aborted").then(an_error);
        self.try_value(
            "select scylla.return_task($1, $2, $3, error => $4)",
            &[&lease.id, &lease.token, &outcome, &error],
        )
    }

    #[track_caller]
    pub fn complete(&mut self, lease: &Lease) {
        match self.return_task(lease, "completed") {
            Ok(status) => assert_eq!(status, "completed"),
            Err(error) => panic!("return_task: {}", explain(&error)),
        }
    }

    /// The error of a return that must fail.
    #[track_caller]
    pub fn not_returned(&mut self, lease: &Lease) -> DbError {
        failure(self.return_task(lease, "completed"), "return_task")
    }

    #[track_caller]
    pub fn cancel(&mut self, id: Uuid) -> bool {
        self.value("select scylla.cancel($1)", &[&id])
    }

    /// Submits a task that depends on others; `options` as in `submit_with`.
    #[track_caller]
    pub fn submit_after(&mut self, queue: &str, after: &[Uuid], options: &str) -> Uuid {
        let sql = format!("select scylla.submit($1, after => $2, {options})");
        self.value(&sql, &[&queue, &after])
    }

    /// Makes the task `run` depend on the task `after`.
    pub fn link(&mut self, after: Uuid, run: Uuid) -> Result<i32, Error> {
        self.link_all(&[(after, run)])
    }

    /// Makes the second task of each pair depend on the first.
    pub fn link_all(&mut self, links: &[(Uuid, Uuid)]) -> Result<i32, Error> {
        let (after, run): (Vec<Uuid>, Vec<Uuid>) = links.iter().copied().unzip();
        self.try_value("select scylla.add_dependencies($1, $2)", &[&after, &run])
    }

    #[track_caller]
    pub fn delete(&mut self, ids: &[Uuid]) -> i32 {
        self.value("select scylla.delete_tasks($1)", &[&ids])
    }

    /// Owns a ready task by its id and returns it.
    #[track_caller]
    pub fn end(&mut self, id: Uuid, outcome: &str) {
        let lease = self.try_own_task(id).unwrap_or_else(|error| panic!("{}", explain(&error)));
        if let Err(error) = self.return_task(&lease, outcome) {
            panic!("return_task({outcome}): {}", explain(&error));
        }
    }

    #[track_caller]
    pub fn entry(&mut self, id: Uuid) -> Value {
        self.value("select scylla.task($1)", &[&id])
    }

    #[track_caller]
    pub fn status(&mut self, id: Uuid) -> String {
        self.entry(id)["status"].as_str().expect("a status").to_owned()
    }

    /// The kinds of the task's history, in order, without the word Task.
    #[track_caller]
    pub fn history(&mut self, id: Uuid) -> Vec<String> {
        let entry = self.entry(id);
        let events = entry["history"].as_array().expect("a history");
        events
            .iter()
            .map(|e| e["_typ"].as_str().expect("_typ").trim_start_matches("Task").to_owned())
            .collect()
    }

    /// How many tasks of the database have this status.
    #[track_caller]
    pub fn tasks(&mut self, status: &str) -> i64 {
        self.value("select count(*) from scylla.tasks where status::text = $1", &[&status])
    }
}

/// The error with which the tests abort tasks.
pub fn an_error() -> Value {
    json!({"code": "test", "args": {"n": 1}, "description": "a test made this"})
}
