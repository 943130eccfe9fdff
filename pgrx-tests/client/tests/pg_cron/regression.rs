//! What pg_cron's own regression test asks, described: which call, and which answer pg_cron 1.6
//! gives.

use super::*;

/// An answer of pg_cron.
enum Answer {
    /// These rows.
    Rows(&'static [&'static str]),
    /// The number of a job, whichever.
    Number,
    Refused,
}
use Answer::{Number, Refused, Rows};

const DONE: Answer = Rows(&[""]);
const TRUE: Answer = Rows(&["t"]);
/// Not a query.
const NOTHING: Answer = Rows(&[]);

/// All that the regression test looks at, but the numbers.
const LOOK: &str = "select jobname, schedule, command from cron.job order by jobid";

/// Who calls, what, and the answer.
type Step = (&'static str, &'static str, Answer);

/// Jobs of a superuser.
const OWN: &[Step] = &[
    ("postgres", "select cron.schedule('0 10 * * *', 'VACUUM')", Number),
    ("postgres", "select cron.unschedule({0 10 * * *})", TRUE),
    ("postgres", "select cron.schedule(repeat('a', 1000), '')", Refused),
    ("postgres", "select cron.schedule('* * * *', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('5 secondc', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('50 seconds c', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('-1 seconds', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('0 seconds', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('60 seconds', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('10000000000 seconds', 'SELECT 1')", Refused),
    ("postgres", "select cron.schedule('@restar', 'VACUUM')", Refused),
    ("postgres", "select cron.schedule('@restart', 'VACUUM')", Number),
    ("postgres", "select cron.schedule('myvacuum', '0 10 * * *', 'VACUUM')", Number),
    ("postgres", LOOK, Rows(&["|@restart|VACUUM", "myvacuum|0 10 * * *|VACUUM"])),
    ("postgres", "select cron.schedule('myvacuum', '0 11 * * *', 'VACUUM') = {myvacuum}", TRUE),
    ("postgres", LOOK, Rows(&["|@restart|VACUUM", "myvacuum|0 11 * * *|VACUUM"])),
    (
        "postgres",
        "select cron.schedule('myvacuum', '0 11 * * *', 'VACUUM FULL') = {myvacuum}",
        TRUE,
    ),
    ("postgres", LOOK, Rows(&["|@restart|VACUUM", "myvacuum|0 11 * * *|VACUUM FULL"])),
    ("postgres", "select cron.unschedule('myvacuum')", TRUE),
    ("postgres", LOOK, Rows(&["|@restart|VACUUM"])),
    ("postgres", "select cron.alter_job({@restart})", Refused),
    ("postgres", "select cron.alter_job(job_id := {@restart}, database := 'absent')", Refused),
];

/// Jobs of others, in databases which they may enter or not.
const OF_OTHERS: &[Step] = &[
    ("postgres", "create database pgcron_dbno", NOTHING),
    ("postgres", "revoke connect on database pgcron_dbno from public", NOTHING),
    ("postgres", "create database pgcron_dbyes", NOTHING),
    ("postgres", "grant usage on schema cron to bert", NOTHING),
    (
        "postgres",
        "select cron.schedule_in_database(job_name := 'cannot connect', schedule := '0 11 * * *',
            command := 'VACUUM', database := 'pgcron_dbno', username := 'bert')",
        Refused,
    ),
    (
        "postgres",
        "select cron.schedule_in_database(job_name := 'of no one', schedule := '0 11 * * *',
            command := 'VACUUM', database := 'pgcron_dbyes', username := 'absent')",
        Refused,
    ),
    (
        "postgres",
        "select cron.alter_job(job_id := {@restart}, database := 'pgcron_dbno', username := 'bert')",
        Refused,
    ),
    (
        "postgres",
        "grant execute on function cron.alter_job(bigint,text,text,text,text,boolean) to public",
        NOTHING,
    ),
    ("bert", "select cron.schedule('My vacuum', '0 11 * * *', 'VACUUM')", Number),
    (
        "bert",
        "select cron.schedule_in_database(job_name := 'his vacuum', schedule := '0 11 * * *',
            command := 'VACUUM', database := current_database(), username := 'anna')",
        Refused,
    ),
    ("bert", "select cron.alter_job(job_id := {My vacuum}, username := 'anna')", Refused),
    ("bert", "select cron.alter_job(job_id := {@restart}, database := 'pgcron_dbyes')", Refused),
    ("bert", "select cron.alter_job(job_id := {My vacuum}, database := 'pgcron_dbyes')", DONE),
    ("bert", "select database from cron.job", Rows(&["pgcron_dbyes"])),
    ("bert", "select cron.alter_job(job_id := {My vacuum}, database := 'pgcron_dbno')", Refused),
    ("bert", "select database from cron.job", Rows(&["pgcron_dbyes"])),
    ("postgres", "select cron.alter_job(job_id := {@restart}, username := 'bert')", DONE),
    ("postgres", "select username from cron.job where jobid = {@restart}", Rows(&["bert"])),
    (
        "postgres",
        "select cron.schedule_in_database(job_name := 'his vacuum', schedule := '0 11 * * *',
            command := 'VACUUM', database := current_database(), username := 'bert')",
        Number,
    ),
    ("postgres", "select username from cron.job where jobid = {his vacuum}", Rows(&["bert"])),
];

/// Intervals, since version 1.5.
const INTERVALS: &[Step] = &[
    ("postgres", "select cron.unschedule(jobid) from cron.job", Rows(&["t", "t", "t"])),
    ("postgres", "select cron.schedule('1 second', 'SELECT 1')", Number),
    ("postgres", "select cron.schedule(' 30 sEcOnDs ', 'SELECT 1')", Number),
    ("postgres", "select cron.schedule('59 seconds', 'SELECT 1')", Number),
    ("postgres", "select cron.schedule('17  seconds ', 'SELECT 1')", Number),
    (
        "postgres",
        LOOK,
        Rows(&[
            "|1 second|SELECT 1",
            "| 30 sEcOnDs |SELECT 1",
            "|59 seconds|SELECT 1",
            "|17  seconds |SELECT 1",
        ]),
    ),
];

/// Whether an answer is the one that is described.
fn is(answer: &[String], described: &Answer) -> bool {
    match described {
        Rows(rows) => answer == *rows,
        Number => matches!(answer, [one] if one.parse::<i64>().is_ok_and(|it| it > 0)),
        Refused => matches!(answer, [one] if one.starts_with("error ")),
    }
}

#[track_caller]
fn check(sessions: &mut Sessions, of: &str, steps: &[Step]) {
    let script: Vec<(&str, &str)> = steps.iter().map(|step| (step.0, step.1)).collect();
    let answers = play(sessions, &script);
    let wrong: Vec<String> = steps
        .iter()
        .zip(&answers)
        .filter(|(step, answer)| !is(answer, &step.2))
        .map(|(step, answer)| format!("{} {}: {answer:?}", step.0, step.1))
        .collect();
    assert!(wrong.is_empty(), "{of}: {wrong:#?}");
}

/// B126: the answers that pg_cron's regression test expects are those of both.
#[test]
fn regression_test_of_pg_cron_gets_its_answers() {
    let (_one, mut theirs) = pg_cron();
    let (two, mut ours) = scylla();
    for (of, sessions) in [("pg_cron", &mut theirs), ("scylla", &mut ours)] {
        check(sessions, of, OWN);
        check(sessions, of, OF_OTHERS);
    }
    let version = "select extversion >= '1.5' from pg_extension where extname = 'pg_cron'";
    if theirs.of("postgres").value::<bool>(version, &[]) {
        check(&mut theirs, "pg_cron", INTERVALS);
    }
    check(&mut ours, "scylla", INTERVALS);
    two.assert_log_is_clean();
}

/// B126: what another role has put into the search path does not run when the schema is made.
#[test]
fn schema_is_made_without_what_is_in_the_search_path() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create table test (data text);
        create type current_setting as enum ('scylla.max_tries', 'cron.database_name');
        create function func1(text, current_setting) returns text language sql volatile
            as 'insert into test values (current_user); select current_database()::text';
        create function func1(current_setting) returns text language sql volatile
            as 'insert into test values (current_user); select current_database()::text';
        create cast (current_setting as text) with function func1(current_setting) as implicit;
        create function count(text) returns bigint language sql volatile
            as 'insert into test values (current_user); select 1::bigint';",
    );
    for api in ["cron", "pgmq"] {
        s.run(&format!("select scylla.enable_{api}_api()"));
    }
    s.run("select cron.schedule('j', '@daily', 'select 1'); select cron.unschedule('j')");
    s.run("select pgmq.create('q'); select pgmq.send('q', '1'); select pgmq.read('q', 0, 1)");
    for api in ["cron", "pgmq"] {
        s.run(&format!("select scylla.disable_{api}_api()"));
    }
    assert_eq!(s.count("select pg_catalog.count(*) from test"), 0);
}
