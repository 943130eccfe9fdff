//! What clients of pgmq send, against the schema `pgmq` and against pgmq: both give the same
//! answers.

use client::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What Supabase makes in a database for its clients, by what its reference says of each function.
const SUPABASE: &str = "create schema pgmq_public;
    create function pgmq_public.send(queue_name text, message jsonb, sleep_seconds integer default 0)
        returns setof bigint language plpgsql set search_path = '' as $$ begin return query
        select * from pgmq.send(queue_name := queue_name, msg := message, delay := sleep_seconds); end $$;
    create function pgmq_public.send_batch(queue_name text, messages jsonb[], sleep_seconds integer default 0)
        returns setof bigint language plpgsql set search_path = '' as $$ begin return query
        select * from pgmq.send_batch(queue_name := queue_name, msgs := messages, delay := sleep_seconds); end $$;
    create function pgmq_public.read(queue_name text, sleep_seconds integer, n integer)
        returns setof pgmq.message_record language plpgsql set search_path = '' as $$ begin return query
        select * from pgmq.read(queue_name := queue_name, vt := sleep_seconds, qty := n); end $$;
    create function pgmq_public.pop(queue_name text)
        returns setof pgmq.message_record language plpgsql set search_path = '' as $$ begin return query
        select * from pgmq.pop(queue_name := queue_name); end $$;
    create function pgmq_public.archive(queue_name text, message_id bigint)
        returns boolean language plpgsql set search_path = '' as $$ begin
        return pgmq.archive(queue_name := queue_name, msg_id := message_id); end $$;
    create function pgmq_public.delete(queue_name text, message_id bigint)
        returns boolean language plpgsql set search_path = '' as $$ begin
        return pgmq.delete(queue_name := queue_name, msg_id := message_id); end $$;";

/// A file of this folder.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pgmq").join(name)
}

/// The folder with pgmq's package for Python, which has pgmq itself.
fn environment() -> &'static Path {
    static FOLDER: OnceLock<String> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let done = Command::new(file("environment")).output().expect("tests/pgmq/environment");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    });
    Path::new(folder)
}

/// A database with pgmq, and one with the schema `pgmq` of scylla.
fn both() -> [Database; 2] {
    let pgmq = Server::shared().bare_database();
    let sql = std::fs::read_to_string(environment().join("pgmq.sql")).expect("pgmq.sql");
    pgmq.connect().run(&sql);
    let scylla = database();
    scylla.connect().run("select scylla.enable_pgmq_api()");
    [pgmq, scylla]
}

/// The answers of one run, whose numbers and times differ from those of another.
struct Run {
    session: Session,
    /// The numbers of messages of a client, in the order in which they are seen first.
    messages: Vec<String>,
    statements: usize,
}

impl Run {
    fn of(database: &Database) -> Run {
        let mut session = database.connect();
        session.run("set timezone = 'UTC'");
        session.run(SUPABASE);
        Run { session, messages: Vec::new(), statements: 0 }
    }

    /// The script with the answers that it gets.
    fn play(&mut self, recorded: &str) -> String {
        let mut played = String::new();
        let mut lines = recorded.lines().filter(|it| !it.starts_with("= ")).peekable();
        while let Some(line) = lines.next() {
            played.push_str(line);
            played.push('\n');
            if line.starts_with('#') {
                self.messages.clear();
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let values = lines.next_if(|it| it.starts_with("  ")).unwrap_or_default();
            if !values.is_empty() {
                played.push_str(values);
                played.push('\n');
            }
            for row in self.answer(line, values.trim()) {
                played.push_str("= ");
                played.push_str(&row);
                played.push('\n');
            }
        }
        played
    }

    /// The rows of a statement, or its error. As a driver prepares it: the server finds the types
    /// of its parameters.
    fn answer(&mut self, statement: &str, values: &str) -> Vec<String> {
        self.statements += 1;
        let name = format!("s{}", self.statements);
        let mut values = values.to_owned();
        for (at, number) in self.messages.iter().enumerate() {
            values = values.replace(&format!("{{m{}}}", at + 1), number);
        }
        let list = if values.is_empty() { String::new() } else { format!("({values})") };
        let soon = self.session.text("select (clock_timestamp() + interval '2 s')::text");
        let sql = [format!("prepare {name} as {statement}"), format!("execute {name}{list}")];
        let mut rows = Vec::new();
        for sql in sql {
            match self.session.simple_query(&sql) {
                Err(error) => return vec![format!("error {}", code(&error))],
                Ok(messages) => rows = messages,
            }
        }
        let mut answer = Vec::new();
        for message in rows {
            let postgres::SimpleQueryMessage::Row(row) = message else { continue };
            let cells = (0..row.len()).map(|at| {
                // The result of a function that has none is empty or null.
                let cell = row.get(at).filter(|it| !it.is_empty()).unwrap_or("-");
                self.cell(row.columns()[at].name(), cell, &soon)
            });
            answer.push(cells.collect::<Vec<_>>().join(" | "));
        }
        // pgmq promises no order.
        answer.sort();
        answer
    }

    /// What a cell says apart from the number of a message, and when it was.
    fn cell(&mut self, column: &str, cell: &str, soon: &str) -> String {
        let is_number = cell.parse::<i64>().is_ok();
        let has_messages = ["msg_id", "send", "send_batch", "archive", "delete"];
        if is_number && has_messages.contains(&column) {
            let at = self.messages.iter().position(|it| it == cell).unwrap_or_else(|| {
                self.messages.push(cell.to_owned());
                self.messages.len() - 1
            });
            return format!("m{}", at + 1);
        }
        if column.ends_with("_age_sec") && is_number {
            return "age".to_owned();
        }
        timeless(cell, soon)
    }
}

/// Replaces the times in a text by whether they are over soon.
fn timeless(cell: &str, soon: &str) -> String {
    let mut rest = cell;
    let mut text = String::new();
    while let Some(at) = rest.char_indices().map(|it| it.0).find(|at| is_time(&rest[*at..])) {
        let time = &rest[at..];
        let end =
            time[19..].find(|c: char| !"0123456789.+".contains(c)).map_or(time.len(), |it| it + 19);
        text.push_str(&rest[..at]);
        text.push_str(if time[..19] > soon[..19] { "later" } else { "by now" });
        rest = &time[end..];
    }
    text + rest
}

/// Whether a text begins with a date and a time.
fn is_time(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00 00:00:00";
    let fits =
        |(c, shape): (u8, &u8)| if *shape == b'0' { c.is_ascii_digit() } else { c == *shape };
    text.len() >= SHAPE.len() && text.bytes().zip(SHAPE).all(fits)
}

/// B135: what the other clients send gets the same answers. The file has for each client its
/// statements, in order: each with the values of its parameters, and the answer of pgmq.
#[test]
fn statements_of_clients_get_the_answers_of_pgmq() {
    let recorded = std::fs::read_to_string(file("recorded.txt")).expect("recorded.txt");
    for (database, name) in both().iter().zip(["pgmq", "scylla"]) {
        let mut run = Run::of(database);
        let played = run.play(&recorded);
        assert!(run.statements > 90, "{} statements", run.statements);
        let differ = recorded.lines().zip(played.lines()).find(|(one, other)| one != other);
        assert!(played == recorded, "{name}, from {differ:?} on:\n{played}");
    }
}

/// B135: each method of pgmq's client for Python, synchronous and asynchronous, does the same.
#[test]
fn client_for_python_does_the_same() {
    for database in both() {
        let (host, port) = database.reach();
        let reach = format!("host={host} port={port} user=postgres dbname={}", database.name);
        let mut python = Command::new(environment().join("bin/python"));
        let done = python.arg("-B").arg(file("client.py")).arg(reach).output().expect("python");
        let said = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {said}{errors}", database.name);
        assert_eq!(said.trim(), "188 calls", "{}", database.name);
    }
}
