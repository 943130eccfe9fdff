//! Random calls of every function with random arguments: they end with an answer or an error of the
//! contract, and what they leave is in order: I2.

use crate::run::Run;
use client::*;
use rand::RngExt;
use rand::rngs::StdRng;

const TEXTS: &[&str] = &[
    "''",
    "' '",
    "'q'",
    "'q2'",
    "'sql'",
    "'*'",
    "'a'",
    "'w'",
    "'k'",
    "'error'",
    "'ignore'",
    "'replace'",
    "'abort'",
    "'run'",
    "'completed'",
    "'aborted'",
    "'retry'",
    "'yield'",
    "'skip'",
    "'once'",
    "'all'",
    "'allow'",
    "'retention'",
    "'max_running'",
    "'* * * * *'",
    "'*/5 0-4 1,2 * 7'",
    "'60 * * * *'",
    "'every 1 second'",
    "'every 2 fortnights'",
    "'@daily'",
    "'UTC'",
    "'Europe/Berlin'",
    "'Mars/Olympus'",
    "'select 1'",
    "'select 1/0'",
    "'begin'",
    "'é🦑'",
    "E'\\n\\t\\\\'",
    "repeat('x', 48)",
    "repeat('x', 49)",
    "repeat('x', 128)",
    "repeat('é', 128)",
    "repeat('x', 257)",
    "repeat('9', 5000)",
    "repeat('x', 2000000)",
    "current_database()::text",
    "'postgres'",
    "'; drop table scylla.task; --'",
    "'%s%n'",
];
const JSONS: &[&str] = &[
    r#"'{"queue": "q", "status": "ready"}'"#,
    r#"'{"worker": "w", "spec": {}, "created_after": "2000-01-01"}'"#,
    r#"'{"status": "cancelled", "group_key": "g", "key": "k", "action": "a", "meta": {}}'"#,
    "'{}'",
    "'null'",
    "'[]'",
    "'0'",
    "'\"\"'",
    "'true'",
    "'{\"code\": \"c\", \"args\": {}, \"description\": \"d\"}'",
    "'{\"code\": 1}'",
    "'[{\"queue\": \"q\"}]'",
    "'[{\"queue\": \"q\", \"id\": \"no\"}, 7, null, {\"queue\": null}]'",
    "'[{\"id\": \"m\", \"deadline\": \"2000-01-01\"}, {\"id\": \"n\", \"deadline\": \"2100-01-01\", \"value\": \"v\"}]'",
    "'[{\"queue\": \"q\", \"priority\": 1e400, \"after\": [[]]}]'",
    "'[{\"queue\": \"q\", \"run_at\": \"infinity\"}]'",
    "to_jsonb(repeat('x', 1100000))",
    "(select jsonb_agg(n) from generate_series(1, 3000) n)",
    "(select jsonb_agg(jsonb_build_object('queue', 'q', 'key', n)) from generate_series(1, 300) n)",
    "(repeat('[', 2000) || repeat(']', 2000))::jsonb",
    "'{\"a\\u0001b\": \"\\ud83e\\udd91\"}'",
];
const TIMES: &[&str] = &[
    "now()",
    "'infinity'",
    "'-infinity'",
    "'4713-01-01 BC'",
    "'294276-12-31 23:59:59.999999+00'",
    "now() + '50 ms'",
    "now() + '1 hour'",
    "now() - interval '1 hour'",
    "'2030-03-31 02:30+01'",
    "'epoch'",
];
const INTERVALS: &[&str] = &[
    "'0'",
    "'1 us'",
    "'20 ms'",
    "'1 hour'",
    "'-1 s'",
    "'178000000 years'",
    "'-178000000 years'",
    "'100 years'",
    "'1 mon -30 days'",
    "'2147483647 days'",
    "'1 day -86400 s'",
];
const NUMBERS: &[&str] = &["0", "1", "-1", "2", "7", "100000", "100001"];
const FLOATS: &[&str] =
    &["0", "1", "0.5", "-0.0", "'NaN'", "'Infinity'", "'-Infinity'", "1e-320", "1e308", "1e6"];
/// Ids of tasks, tokens and ids of none; so that calls often meet the same task.
const IDS: &[&str] = &[
    "(select id from scylla.task order by random() limit 1)",
    "(select id from scylla.task where queue = 'q' order by id limit 1)",
    "(select id from scylla.finished limit 1)",
    "(select token from fuzzed order by random() limit 1)",
    "(select id from fuzzed order by random() limit 1)",
    "gen_random_uuid()",
    "'00000000-0000-0000-0000-000000000000'",
    "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
];

fn one<'a>(random: &mut StdRng, some: &[&'a str]) -> &'a str {
    some[random.random_range(0..some.len())]
}

/// Values that most calls accept, so that many of them get beyond the checks of their arguments.
fn tame(random: &mut StdRng, name: &str, kind: &str) -> String {
    let text = match (name, kind) {
        ("token", _) => "(select token from fuzzed order by ctid desc limit 1)",
        ("id", "uuid") => "(select id from fuzzed order by ctid desc limit 1)",
        ("tokens", _) => "array(select token from fuzzed order by ctid desc limit 5)",
        ("ids", _) => "array(select id from fuzzed order by ctid desc limit 5)",
        ("schedule", _) => one(random, &["'*/5 * * * *'", "'every 1 hour'"]),
        ("after", "uuid[]") => "array(select id from scylla.task order by id limit 2)",
        ("run", "uuid[]") => "array(select id from scylla.task order by id desc limit 1)",
        ("messages", _) => "'[{\"id\": \"m\", \"deadline\": \"2100-01-01\", \"value\": \"v\"}]'",
        ("setting", _) => "'retention'",
        // Less than the timeout of a statement.
        ("timeout", _) => "'50 ms'",
        ("privileges", _) => "'{submit,look}'",
        ("outcome", _) => one(random, &["'completed'", "'retry'", "'yield'"]),
        ("on_conflict", _) => one(random, &["'error'", "'ignore'", "'replace'"]),
        ("on_failure", _) => one(random, &["'abort'", "'run'"]),
        (_, "text") => one(random, &["'q'", "'q2'", "'k'", "'select 1'"]),
        (_, "jsonb") => one(random, &["'{}'", "'[{\"queue\": \"q\"}]'"]),
        (_, "timestamp with time zone") => "now() + '20 ms'",
        (_, "regrole") => "'pg_monitor'",
        (_, "integer" | "bigint") => "1",
        (_, "interval") => "'1 s'",
        (_, "uuid") => "(select id from scylla.task order by random() limit 1)",
        _ => return value(random, kind),
    };
    format!("({text})::{kind}")
}

/// An expression of a type, by its name in the catalog.
fn value(random: &mut StdRng, kind: &str) -> String {
    if random.random_bool(0.06) {
        return format!("null::{kind}");
    }
    if let Some(element) = kind.strip_suffix("[]") {
        return array(random, element);
    }
    let text = match kind {
        "text" => one(random, TEXTS),
        "jsonb" => one(random, JSONS),
        "timestamp with time zone" => one(random, TIMES),
        "interval" => one(random, INTERVALS),
        "integer" if random.random_bool(0.2) => one(random, &["2147483647", "(-2147483648)"]),
        "bigint" if random.random_bool(0.2) => one(
            random,
            &["4294967295", "4294967296", "9223372036854775807", "(-9223372036854775808)"],
        ),
        "integer" | "bigint" => one(random, NUMBERS),
        "double precision" => one(random, FLOATS),
        "boolean" => one(random, &["true", "false"]),
        "uuid" => one(random, IDS),
        "regrole" => one(random, &["'postgres'", "'pg_monitor'", "0", "4294967295"]),
        _ => "null",
    };
    format!("({text})::{kind}")
}

fn array(random: &mut StdRng, element: &str) -> String {
    let kind = format!("{element}[]");
    match random.random_range(0..20) {
        0 => format!("'{{}}'::{kind}"),
        1 => format!("array_fill({}, array[2, 2])", value(random, element)),
        2 => format!("array_fill({}, array[3], array[-7])", value(random, element)),
        3 if random.random_bool(0.1) => {
            format!("array_fill({}, array[100001])", value(random, element))
        }
        _ => {
            let count = random.random_range(1..5);
            let elements: Vec<String> = (0..count).map(|_| value(random, element)).collect();
            format!("array[{}]::{kind}", elements.join(", "))
        }
    }
}

/// Elements of submit_tasks: objects whose members are submit's arguments, most of them of the
/// right type.
fn tasks(random: &mut StdRng, members: &[Argument]) -> String {
    let count = random.random_range(0..6);
    let tasks: Vec<String> = (0..count).map(|_| task(random, members)).collect();
    format!("jsonb_build_array({})", tasks.join(", "))
}

fn task(random: &mut StdRng, members: &[Argument]) -> String {
    if random.random_bool(0.05) {
        return value(random, "jsonb");
    }
    let mut given = Vec::new();
    for (name, kind) in members {
        if !random.random_bool(if name == "queue" { 0.95 } else { 0.25 }) {
            continue;
        }
        let value = match random.random_range(0..16) {
            0 => {
                let (_, other) = &members[random.random_range(0..members.len())];
                value(random, other)
            }
            1..4 => value(random, kind),
            _ => tame(random, name, kind),
        };
        given.push(format!("'{name}', {value}"));
    }
    if random.random_bool(0.03) {
        given.push(format!("'tries', {}", value(random, "integer")));
    }
    format!("jsonb_build_object({})", given.join(", "))
}

/// A name and a type.
type Argument = (String, String);

struct Function {
    name: String,
    is_procedure: bool,
    /// The arguments that go in; the last so many have defaults.
    arguments: Vec<Argument>,
    defaults: usize,
}

/// All functions of the extension that a statement can call.
fn functions(s: &mut Session) -> Vec<Function> {
    let sql = "select p.oid::regproc::text, p.prokind = 'p', p.pronargdefaults::int,
                   coalesce(p.proargnames[1:p.pronargs], '{}'),
                   array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, n) order by n)
               from pg_proc p join pg_depend d on d.objid = p.oid and d.deptype = 'e'
                   and d.classid = 'pg_proc'::regclass
               where d.refobjid = (select oid from pg_extension where extname = 'scylla')
                   and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
                   and 'internal'::regtype <> all (p.proargtypes) order by p.oid::regprocedure::text";
    let function = |row: &postgres::Row| {
        let (names, kinds): (Vec<String>, Vec<String>) = (row.get(3), row.get(4));
        Function {
            name: row.get(0),
            is_procedure: row.get(1),
            arguments: names.into_iter().zip(kinds).collect(),
            defaults: row.get::<_, i32>(2) as usize,
        }
    };
    s.query(sql, &[]).expect("pg_proc").iter().map(function).collect()
}

fn call(random: &mut StdRng, function: &Function, members: &[Argument]) -> String {
    let needed = function.arguments.len() - function.defaults;
    let mut arguments = Vec::new();
    let is_tame = random.random_bool(0.4);
    for (n, (name, kind)) in function.arguments.iter().enumerate() {
        if n < needed || random.random_bool(if is_tame { 0.1 } else { 0.35 }) {
            let value = match name.as_str() {
                "tasks" if random.random_bool(0.9) => tasks(random, members),
                _ if is_tame => tame(random, name, kind),
                _ => value(random, kind),
            };
            arguments.push(if n < needed { value } else { format!("{name} => {value}") });
        }
    }
    let (name, arguments) = (&function.name, arguments.join(", "));
    match function.is_procedure {
        true => format!("call {name}({arguments})"),
        false if name.ends_with("own_tasks") => {
            format!("insert into fuzzed select id, token from {name}({arguments})")
        }
        false => format!("select * from {name}({arguments})"),
    }
}

pub fn call_everything(run: &mut Run) -> String {
    let server = Server::start(&["fsync = off", "scylla.retention = '1 h'"]);
    let database = server.database();
    let mut s = database.connect();
    let functions = functions(&mut s);
    assert!(functions.len() > 50, "{} functions", functions.len());
    let named = |name| functions.iter().position(|it| it.name == name).expect("a function");
    let members = &functions[named("scylla.submit")].arguments;
    let submit_tasks = named("scylla.submit_tasks");
    s.run("create table fuzzed (id uuid, token uuid); set statement_timeout = '100 ms'");
    s.run("insert into fuzzed values (gen_random_uuid(), gen_random_uuid())");
    let started = s.text("select pg_postmaster_start_time()::text");
    let (mut answers, mut errors, mut met) = (0, 0, vec![0; functions.len()]);
    let mut in_block = false;
    for _ in 0..run.times {
        // One that takes more forms than the others has more calls.
        let at = match run.random.random_bool(0.1) {
            true => submit_tasks,
            false => run.random.random_range(0..functions.len()),
        };
        let sql = call(&mut run.random, &functions[at], members);
        match run.random.random_range(0..40) {
            0 if !in_block => {
                s.run("begin");
                in_block = true;
            }
            1..10 if in_block => {
                s.run(["commit", "rollback"][run.random.random_range(0..2)]);
                in_block = false;
            }
            _ => {}
        }
        match s.batch_execute(&sql).map_err(|error| code(&error)) {
            Ok(()) => {
                answers += 1;
                met[at] += 1;
            }
            Err(code) => {
                errors += 1;
                assert!(!["XX000", "XX001", "XX002", "lost"].contains(&&*code), "{code}: {sql}");
                if in_block {
                    s.run("rollback");
                    in_block = false;
                }
            }
        }
        run.made_one();
    }
    if in_block {
        s.run("rollback");
    }
    s.run("reset statement_timeout; select scylla.open(), scylla.critical_only(false)");
    assert_eq!(s.text("select pg_postmaster_start_time()::text"), started, "no restart");
    server.assert_log_is_clean();
    s.run("select scylla.cancel_tasks(array(select id from scylla.task limit 50000))");
    s.counts_agree(seconds(30));
    s.check_indexes("i.indrelid::regclass::text ~ '^scylla.'");
    let id = s.submit("after all");
    // No call has asked this worker to stop.
    let owned: Vec<Uuid> = s.own("after all", "after all", 5).iter().map(|it| it.id).collect();
    assert_eq!(owned, [id]);
    let never: Vec<&str> = (functions.iter().zip(&met))
        .filter(|it| *it.1 == 0)
        .map(|it| it.0.name.trim_start_matches("scylla."))
        .collect();
    format!(
        "{answers} answers and {errors} errors of {} functions; never an answer: {}",
        functions.len(),
        if never.is_empty() { "none".to_owned() } else { never.join(", ") }
    )
}

/// Queries that sqlsmith makes from all that a role may see and call. It finds internal errors of
/// PostgreSQL, too: those do not count that the parser found, or a built-in function that the query
/// itself calls, such as `intervaltypmodout(39)`.
pub fn query_at_random(run: &mut Run) -> String {
    if !Server::has_package("sqlsmith") {
        return run.skip("sqlsmith is not installed, and only root may install it");
    }
    let server = Server::start(&[
        "log_error_verbosity = verbose",
        "log_line_prefix = '%m [%p] '",
        "log_min_error_statement = error",
        "statement_timeout = '1 s'",
    ]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role smith login; select scylla.grant('q', 'smith', '{submit,work,look,cancel,manage}')");
    s.submit_many("q", 1000);
    let started = s.text("select pg_postmaster_start_time()::text");
    let (host, port) = database.reach();
    let target = format!("host={host} port={port} dbname={} user=smith", database.name);
    let options = [
        format!("--target={target}"),
        format!("--max-queries={}", run.times),
        format!("--seed={}", run.seed as i32),
        "--exclude-catalog".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let status = Server::spawn("sqlsmith", &options).wait().expect("sqlsmith");
    assert!(status.success(), "sqlsmith ended with {status}");
    run.made_one();
    assert_eq!(s.text("select pg_postmaster_start_time()::text"), started, "no restart");
    let log = server.log();
    let errors: Vec<&str> = log.split("ERROR:  ").skip(1).collect();
    for error in errors.iter().filter(|it| it.starts_with("XX")) {
        let (_, place) = error.split_once("LOCATION:  ").expect("the log is verbose");
        let (function, file) = place.split_once(", ").expect("a function, then its file");
        let theirs =
            file.starts_with("parse_") || file.contains(&format!("pg_catalog.{function}("));
        assert!(theirs, "{error}");
    }
    server.assert_log_is_clean();
    s.run("select scylla.open()");
    s.counts_agree(seconds(30));
    s.check_indexes("i.indrelid::regclass::text ~ '^scylla.'");
    format!("{} of {} queries had an error", errors.len(), run.times)
}
