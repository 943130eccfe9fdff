//! Databases with an encoding other than UTF-8: names are bytes and are never changed.

use client::*;
use std::ops::{Deref, DerefMut};

/// A database of another encoding.
struct Encoded {
    database: Database,
    session: Session,
}

impl Deref for Encoded {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Encoded {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// The statements of the tests write these names as `:Q`, `:A`, `:W` and `:K`. The last bytes are
/// é, ü, ö and ß in LATIN1, and no UTF-8.
const NAMES: [(&str, &str); 4] =
    [("Q", r"E'q\351'"), ("A", r"E'a\374'"), ("W", r"E'w\366'"), ("K", r"E'k\337'")];

fn encode(sql: &str) -> String {
    NAMES.iter().fold(sql.to_owned(), |sql, (name, bytes)| sql.replace(&format!(":{name}"), bytes))
}

impl Encoded {
    /// Calls with names in `sql`; its one value.
    #[track_caller]
    fn call<T: postgres::types::FromSqlOwned>(&mut self, sql: &str) -> T {
        self.session.value(&encode(sql), &[])
    }

    #[track_caller]
    fn submit_task(&mut self, options: &str) -> Uuid {
        self.call(&format!("select scylla.submit(:Q, action => :A{options})"))
    }

    /// Owns all ready tasks of the queue and action; their ids and tokens.
    #[track_caller]
    fn own_all(&mut self, options: &str) -> Vec<(Uuid, Uuid)> {
        let sql = format!(
            "select id, token from scylla.own_tasks(:W, :Q, 10, actions => array[:A]{options})"
        );
        let rows = self.session.query(&encode(&sql), &[]).expect("own_tasks");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Owns the task with this id, waiting until it is ready; its token.
    #[track_caller]
    fn own_the(&mut self, id: Uuid, options: &str) -> Uuid {
        let owned = eventually(seconds(5), "the task is handed out", || {
            Some(self.own_all(options)).filter(|owned| !owned.is_empty())
        });
        assert_eq!((owned.len(), owned[0].0), (1, id));
        owned[0].1
    }

    #[track_caller]
    fn return_it(&mut self, id: Uuid, token: Uuid, outcome: &str) -> String {
        self.session.value("select scylla.return_task($1, $2, $3)", &[&id, &token, &outcome])
    }
}

/// Runs a test in a database of each encoding of one byte a character.
fn in_each(server: &Server, test: impl Fn(&mut Encoded)) {
    for encoding in ["latin1", "sql_ascii"] {
        let database = server.bare_database();
        let mut s = server.connect();
        s.run(&format!("drop database {}", database.name));
        s.run(&format!(
            "create database {} encoding {encoding} lc_collate 'C' lc_ctype 'C' template template0",
            database.name
        ));
        let mut session = database.connect();
        // names are sent as they are
        session.run("create extension scylla");
        test(&mut Encoded { database, session });
    }
}

/// A task whose name is read from its row goes back to its lane.
#[test]
fn tasks_come_back_to_their_lane() {
    let server = Server::start(&[]);
    in_each(&server, |s| {
        let plain = s.submit_task("");
        let token = s.own_the(plain, "");
        assert_eq!(s.return_it(plain, token, "retry"), "ready");
        let token = s.own_the(plain, ", timeout => '50 ms'");
        let status = "select scylla.task($1) ->> 'status'";
        eventually(seconds(5), "the lease expires", || {
            (s.session.value::<String>(status, &[&plain]) == "ready").then_some(())
        });
        assert_ne!(s.own_the(plain, ""), token);
        s.cancel(plain);

        let delayed = s.submit_task(", run_at => now() + interval '50 ms'");
        s.own_the(delayed, "");

        let first = s.submit_task("");
        let sql =
            format!("select scylla.submit(:Q, action => :A, after => array['{first}'::uuid])");
        let second: Uuid = s.call(&sql);
        let token = s.own_the(first, "");
        assert_eq!(s.return_it(first, token, "completed"), "completed");
        s.own_the(second, "");

        let cancelled = s.submit_task("");
        s.run(&format!("begin; select scylla.cancel('{cancelled}'); rollback"));
        s.own_the(cancelled, "");

        let postponed = s.submit_task("");
        s.run(&format!("select scylla.delay('{postponed}', now() + interval '1 hour')"));
        s.run(&format!("select scylla.delay('{postponed}', now())"));
        s.own_the(postponed, "");

        let by_id = s.submit_task("");
        let owned = format!("select token from scylla.own_task('{by_id}', :W)");
        let token: Uuid = s.call(&owned);
        assert_eq!(s.return_it(by_id, token, "yield"), "ready");
        s.own_the(by_id, "");
    });
    server.assert_log_is_clean();
}

/// A refill and a survey read the names of the lanes from the table.
#[test]
fn a_refresh_finds_each_lane() {
    let server = Server::start(&[]);
    in_each(&server, |s| {
        let id = s.submit_task("");
        // only the row is ready: the board does not know
        s.run(&format!("update scylla.task set ready = false where id = '{id}'"));
        assert_eq!(s.own_all(""), []);
        s.run(&format!("update scylla.task set ready = true where id = '{id}'"));
        s.run("select scylla.refresh()");
        s.own_the(id, "");
    });
}

/// The board is built from the tables, and leases are restored with the names of their workers.
#[test]
fn a_restart_finds_each_lane_and_each_worker() {
    let server = Server::start(&["scylla.persist_leases_after = 0"]);
    in_each(&server, |s| {
        let held = s.submit_task("");
        let token = s.own_the(held, ", timeout => '1 hour'");
        let ready = s.submit_task("");
        let written = "select count(*) from scylla.lease";
        eventually(seconds(10), "the lease is written", || (s.count(written) == 1).then_some(()));
        server.stop("fast");
        server.start_again();
        s.session = s.database.connect();
        s.own_the(ready, "");
        let owner: bool =
            s.call("select bool_and(owner = :W) from scylla.tasks where status = 'running'");
        assert!(owner, "the worker's name is restored");
        assert_eq!(s.return_it(held, token, "completed"), "completed");
        let owner: bool =
            s.call(&format!("select owner = :W from scylla.finished where id = '{held}'"));
        assert!(owner);
    });
    server.assert_log_is_clean();
}

/// Error messages show names byte for byte: bytes that are not valid UTF-8 are escaped.
#[test]
fn messages_tell_one_name_from_another() {
    let server = Server::start(&[]);
    in_each(&server, |s| {
        let id = s.submit_task(", key => :K");
        let said = s.session.refusal(&encode("select scylla.submit(:Q, key => :K)"), &[]);
        assert_eq!(said.code().code(), "23505");
        assert!(said.message().contains(r#""k\xdf""#), "{}", said.message());
        let said = s.session.refusal(&encode("select scylla.submit(:Q, on_conflict => :W)"), &[]);
        assert_eq!(said.code().code(), "22023");
        assert!(said.message().contains(r#""w\xf6""#), "{}", said.message());
        if s.text("show server_encoding") == "LATIN1" {
            let sql = encode(
                "select scylla.submit_tasks(
                     jsonb_build_array(jsonb_build_object('queue', 'q', :A::text, 1)))",
            );
            let said = s.session.refusal(&sql, &[]);
            assert!(said.message().contains(r#""a\xfc""#), "{}", said.message());
        }
        s.own_the(id, "");
        let told: bool = s.call(&format!(
            "select position(convert_to('worker \"' || :W || '\"', getdatabaseencoding())
                in convert_to(scylla.why('{id}'), getdatabaseencoding())) > 0"
        ));
        assert!(told, "why() names the worker");
        let said = s.session.refusal("select scylla.return_task($1, $1, 'aborted')", &[&id]);
        assert!(said.hint().is_some_and(str::is_ascii), "{:?}", said.hint());
    });
}

/// A partition with a name given by an administrator is dropped by its name.
#[test]
fn a_partition_of_any_name_is_dropped() {
    let server = Server::start(&[]);
    in_each(&server, |s| {
        // the scheduler handles partitions only in a database with tasks
        s.submit_task("");
        s.run(&encode_name(
            "create table scylla.NAME partition of scylla.finished
             for values from ('2001-01-01') to ('2001-01-02')",
        ));
        // the scheduler checks the partitions when the retention changes
        server.configure("scylla.retention", "9 d");
        let left = "select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where inhparent = 'scylla.finished'::regclass
              and pg_get_expr(c.relpartbound, c.oid) like '%2001-01-02%'";
        eventually(seconds(10), "what is past is dropped", || (s.count(left) == 0).then_some(()));
        server.configure("scylla.retention", "10 d");
    });
}

/// A statement with a table's name that is not ASCII, as a block of PL/pgSQL.
fn encode_name(sql: &str) -> String {
    let sql = sql.replace("NAME", "%I").replace('\'', "''");
    format!(r"do $do$ begin execute format('{sql}', E'past_\351'); end $do$")
}
