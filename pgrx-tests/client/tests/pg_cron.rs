//! The schema `cron`: a script that is written for pg_cron gets the same answers from scylla.

use client::*;
use std::collections::BTreeMap;

/// Sessions of one database, by role.
struct Sessions {
    database: Database,
    of: BTreeMap<&'static str, Session>,
}

impl Sessions {
    fn new(database: Database) -> Sessions {
        Sessions { database, of: BTreeMap::new() }
    }

    fn of(&mut self, role: &'static str) -> &mut Session {
        self.of.entry(role).or_insert_with(|| {
            let mut s = self.database.connect();
            s.run(&format!("set role {role}"));
            s
        })
    }
}

/// What prepares the roles, once for the whole server.
const ROLES: &str = "create role anna login; create role bert login; create role nolog";

/// For each step: who runs it, and what. `{name}` is the number of the job of that name, of any role.
const SCRIPT: [(&str, &str); 61] = [
    ("anna", "select cron.schedule('* * * * *', 'select 1') > 0"),
    ("anna", "select cron.schedule('tick', '*/5 * * * *', 'select 2') > 0"),
    ("anna", "select cron.schedule('tick', '*/6 * * * *', 'select 3') = {tick}"),
    ("anna", "select cron.schedule('bad', '61 * * * *', 'select 3')"),
    ("anna", "select cron.schedule('bad', 'every day', 'select 3')"),
    ("anna", "select cron.schedule('bad', '', 'select 3')"),
    ("anna", "select cron.schedule('bad', '* * * *', 'select 3')"),
    ("anna", "select cron.schedule('bad', '@never', 'select 3')"),
    ("anna", "select cron.schedule('daily', '@daily', 'select 3') > 0"),
    ("anna", "select cron.schedule('names', '0 0 * jan,feb mon-fri/2', 'vacuum') > 0"),
    ("anna", "select cron.schedule(null, '@daily', 'select 1')"),
    ("anna", "select cron.schedule('x', null, 'select 1')"),
    ("anna", "select cron.schedule('x', '@daily', null)"),
    ("anna", "select cron.schedule(null, 'x') is null"),
    ("anna", "select cron.schedule_in_database('in', '@hourly', 'select 1', 'other') > 0"),
    (
        "anna",
        "select cron.schedule_in_database('in', '@daily', 'select 2', 'other', null, false) = {in}",
    ),
    (
        "anna",
        "select cron.schedule_in_database('off', '@daily', 'select 2', 'other', null, false) > 0",
    ),
    ("anna", "select cron.schedule_in_database('in2', '@hourly', 'select 1', 'absent')"),
    ("anna", "select cron.schedule_in_database('in2', '@hourly', 'select 1', 'other', 'bert')"),
    ("anna", "select cron.schedule_in_database('in3', '@hourly', 'select 1', null) > 0"),
    ("anna", "select cron.alter_job({tick}, schedule => '0 1 * * *')"),
    ("anna", "select cron.alter_job({tick}, active => false)"),
    ("anna", "select cron.alter_job({tick}, command => 'select 9', database => 'other')"),
    ("anna", "select cron.alter_job({tick}, username => 'bert')"),
    ("anna", "select cron.alter_job({tick})"),
    ("anna", "select cron.alter_job(null)"),
    ("anna", "select cron.alter_job(999999, active => false)"),
    ("anna", "select cron.alter_job({tick}, schedule => 'x')"),
    ("anna", "select cron.alter_job({tick}, database => 'absent')"),
    ("anna", JOBS),
    ("bert", JOBS),
    ("bert", "select cron.alter_job({tick}, active => true)"),
    ("bert", "select cron.schedule_in_database('b', '@daily', 'select 1', 'other')"),
    ("bert", "select cron.unschedule({tick})"),
    ("bert", "select cron.unschedule('tick')"),
    ("bert", "select cron.unschedule(999999)"),
    ("bert", "select cron.schedule('tick', '*/7 * * * *', 'select 4') = {tick}"),
    ("bert", JOBS),
    ("postgres", JOBS),
    (
        "postgres",
        "select cron.schedule_in_database('of bert', '@daily', 'select 1', 'other', 'bert') > 0",
    ),
    ("postgres", "select cron.schedule_in_database('n', '@daily', 'select 1', 'other', 'nolog')"),
    ("postgres", "select cron.schedule_in_database('n', '@daily', 'select 1', 'other', 'absent')"),
    (
        "postgres",
        "select cron.alter_job((select jobid from cron.job where jobname = 'tick' and username = 'anna'), username => 'bert')",
    ),
    ("postgres", "select cron.alter_job({daily}, username => 'bert', active => false)"),
    ("postgres", "select cron.alter_job({daily}, username => 'nolog')"),
    ("postgres", "select cron.unschedule('in')"),
    ("postgres", "select cron.unschedule('absent')"),
    (
        "postgres",
        "select cron.unschedule(null::bigint) is null, cron.unschedule(null::name) is null",
    ),
    ("postgres", JOBS),
    ("anna", JOBS),
    ("anna", "select cron.unschedule({in})"),
    ("anna", "select cron.unschedule('in3')"),
    ("anna", "select cron.unschedule('in3')"),
    ("bert", "select cron.unschedule('daily')"),
    ("postgres", "select cron.unschedule({off})"),
    ("postgres", JOBS),
    ("anna", "select count(*) from cron.job_run_details where jobid < 0"),
    ("anna", "update cron.job set active = false"),
    (
        "postgres",
        "select attname::text, atttypid::regtype::text from pg_attribute
        where attrelid = 'cron.job'::regclass and attnum > 0 order by attnum",
    ),
    (
        "postgres",
        "select attname::text, atttypid::regtype::text from pg_attribute
        where attrelid = 'cron.job_run_details'::regclass and attnum > 0 order by attnum",
    ),
    (
        "postgres",
        "select proname::text, pg_get_function_arguments(oid), pg_get_function_result(oid),
        has_function_privilege('nolog', oid, 'execute') from pg_proc
        where pronamespace = 'cron'::regnamespace and proname not like '%cache%' order by 1, 2",
    ),
];

/// All that a role sees of the jobs, but their numbers.
const JOBS: &str = "select jobname::text, username, active, schedule, command, nodename,
    case database when current_database() then 'here' else database end, nodeport = current_setting('port')::int
    from cron.job order by username, jobname, schedule";

/// The answer to a step: its rows, or the SQLSTATE of its error.
fn answer(s: &mut Session, sql: &str) -> Vec<String> {
    match s.simple_query(sql) {
        Ok(messages) => {
            let rows = messages.iter().filter_map(|it| match it {
                postgres::SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| row.get(at).unwrap_or(""));
                    Some(cells.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            });
            rows.collect()
        }
        Err(error) => vec![format!("error {}", code(&error))],
    }
}

fn play(sessions: &mut Sessions) -> Vec<Vec<String>> {
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    let mut answers = Vec::new();
    for (role, sql) in SCRIPT {
        let look =
            "select coalesce(jobname::text, 'none'), min(jobid)::text from cron.job group by 1";
        for row in sessions.of("postgres").query(look, &[]).expect("the jobs") {
            numbers.entry(row.get(0)).or_insert_with(|| row.get(1));
        }
        let mut sql = sql.to_owned();
        for (name, number) in &numbers {
            sql = sql.replace(&format!("{{{name}}}"), number);
        }
        answers.push(answer(sessions.of(role), &sql));
    }
    answers
}

/// Whether two answers are the same. The names of jobs are of type `name`, in later versions of
/// pg_cron `text`; of an error, pg_cron often gives no SQLSTATE of its own.
fn same(pg_cron: &[String], scylla: &[String]) -> bool {
    let as_name = |row: &String| {
        row.replace("jobname|text", "jobname|name")
            .replace("unschedule|job_name text", "unschedule|job_name name")
    };
    pg_cron.iter().map(as_name).eq(scylla.iter().cloned())
        || pg_cron == ["error XX000"]
            && matches!(scylla, [one] if one.starts_with("error ") && one != "error XX000")
}

fn pg_cron() -> (Server, Sessions) {
    let server = Server::start(&[
        "shared_preload_libraries = 'scylla, pg_cron'",
        "cron.database_name = 'jobs'",
    ]);
    server.connect().run("create database jobs");
    server.connect().run("create database other");
    let database = server.database().named("jobs");
    let mut s = database.connect();
    s.run(ROLES);
    s.run("create extension pg_cron");
    (server, Sessions::new(database))
}

fn scylla() -> (Server, Sessions) {
    let server = Server::start(&[]);
    server.connect().run("create database jobs");
    server.connect().run("create database other");
    let database = server.database().named("jobs");
    let mut s = database.connect();
    s.run(ROLES);
    s.run("create extension scylla");
    s.run("select scylla.enable_cron_api()");
    for role in ["anna", "bert"] {
        s.run(&format!("select scylla.grant('sql', '{role}', '{{submit}}')"));
    }
    (server, Sessions::new(database))
}

const GRANTS: &str = "grant usage on schema cron to anna, bert;
    grant execute on function cron.schedule_in_database, cron.alter_job to anna";

/// B126: the same script gets the same answers from both.
#[test]
fn a_script_gets_the_same_answers_from_both() {
    let (_one, mut theirs) = pg_cron();
    let (two, mut ours) = scylla();
    for sessions in [&mut theirs, &mut ours] {
        sessions.of("postgres").run(GRANTS);
    }
    let (theirs, ours) = (play(&mut theirs), play(&mut ours));
    let mut differ = Vec::new();
    for (at, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        if !same(theirs, ours) {
            differ.push(format!("{:?}\n  pg_cron: {theirs:?}\n  scylla:  {ours:?}", SCRIPT[at]));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(theirs.iter().flatten().filter(|it| it.starts_with("error")).count() > 15);
    two.assert_log_is_clean();
}

/// B126: jobs run, and their runs are shown, as with pg_cron.
#[test]
fn jobs_run_and_are_shown_as_with_pg_cron() {
    let (_one, mut theirs) = pg_cron();
    let (two, mut ours) = scylla();
    let jobs = [
        ("rows", "select generate_series(1, 3)"),
        ("one", "select 1"),
        ("insert", "insert into seen values (current_user)"),
        ("fails", "select 1 / 0"),
        ("vacuum", "vacuum seen"),
    ];
    for sessions in [&mut theirs, &mut ours] {
        let s = sessions.of("postgres");
        s.run(GRANTS);
        s.run("create table seen (who text); grant all on seen to anna; alter table seen owner to anna");
        for (name, command) in jobs {
            let call = "select cron.schedule($1, '* * * * *', $2)";
            sessions.of("anna").value::<i64>(call, &[&name, &command]);
        }
    }
    let look = "select coalesce(string_agg(distinct format('%s %s %s %s %s', j.jobname, d.status,
            d.return_message, d.username, d.start_time <= d.end_time), e'\\n'), '')
        from cron.job_run_details d join cron.job j using (jobid)
        where d.status in ('succeeded', 'failed')";
    let shown = |sessions: &mut Sessions| {
        eventually(seconds(150), "each job ran", || {
            let shown = sessions.of("anna").text(look);
            jobs.iter().all(|(name, _)| shown.contains(name)).then_some(shown)
        })
    };
    assert_eq!(shown(&mut theirs), shown(&mut ours));
    let seen = "select string_agg(distinct who, ' ') from seen";
    assert_eq!(ours.of("postgres").text(seen), "anna");
    // A role sees the runs of its own jobs only.
    assert_eq!(ours.of("bert").count("select count(*) from cron.job_run_details"), 0);
    two.assert_log_is_clean();
}

/// B126: what pg_cron has newer than the script: seconds, and `$` for the last day of a month.
#[test]
fn newer_expressions_of_pg_cron_are_known() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    s.run("select cron.schedule('s', '30 seconds', 'select 1'), cron.schedule('d', '0 12 $ * *', 'select 1')");
    let next =
        "select string_agg(n::text, ' ') from scylla.next_runs($1, 2, 'UTC', '2028-02-01Z') n";
    let runs = |s: &mut Session, expression: &str| s.value::<String>(next, &[&expression]);
    s.run("set timezone = 'UTC'");
    assert_eq!(runs(&mut s, "0 12 $ * *"), "2028-02-29 12:00:00+00 2028-03-31 12:00:00+00");
    assert_eq!(runs(&mut s, "30 seconds"), "2028-02-01 00:00:30+00 2028-02-01 00:01:00+00");
    for bad in ["0 seconds", "60 seconds", "1 minute", "$ * * * *", "0 0 * $ *"] {
        let call = format!("select cron.schedule('bad', '{bad}', 'select 1')");
        assert_eq!(s.refused(&call), "22023", "{bad}");
    }
    // Its jobs are schedules, with all that these have.
    let id: i64 = s.value("select jobid from cron.job where jobname = 'd'", &[]);
    s.run(&format!("select scylla.alter_schedule('cron:{id}', time_zone => 'Asia/Tokyo')"));
    s.run("select scylla.disable_cron_api()");
    assert_eq!(s.count("select count(*) from pg_namespace where nspname = 'cron'"), 0);
    assert_eq!(s.count("select count(*) from scylla.schedules"), 2);
    assert_eq!(s.refused("select scylla.disable_cron_api()"), "3F000");
    s.run("select scylla.enable_cron_api()");
    assert_eq!(s.count("select count(*) from cron.job"), 2);
    assert_eq!(s.refused("select scylla.enable_cron_api()"), "42P06");
}

/// B126: the jobs of pg_cron are moved, and the schema `cron` is pg_cron's until it is dropped.
#[test]
fn jobs_of_pg_cron_are_imported() {
    let (server, mut theirs) = pg_cron();
    let s = theirs.of("postgres");
    s.run(GRANTS);
    s.run("create extension scylla");
    assert_eq!(s.refused("select scylla.enable_cron_api()"), "42710");
    for (name, schedule) in [("plain", "0 1 * * *"), ("never", "0 0 30 2 *"), ("reboot", "@reboot")]
    {
        let call = "select cron.schedule($1, $2, 'select 1')";
        s.value::<i64>(call, &[&name, &schedule]);
    }
    s.run("select cron.schedule('0 2 * * *', 'select 2')");
    s.run("select cron.schedule_in_database('off', '0 3 * * *', 'vacuum', 'other', 'anna', false)");
    assert_eq!(s.value::<i64>("select scylla.import_cron_jobs()", &[]), 3);
    assert_eq!(s.text("select string_agg(jobname, ' ' order by 1) from cron.job"), "never reboot");
    assert!(server.log().contains("WARNING:  job 2 of pg_cron was not imported"));
    assert_eq!(s.refused("select scylla.disable_cron_api()"), "42809");
    s.run("drop extension pg_cron");
    s.run("select scylla.enable_cron_api()");
    let look = "select string_agg(concat_ws(' ', jobname, schedule, command, database, username, active), ', '
        order by schedule) from cron.job";
    let jobs = "plain 0 1 * * * select 1 jobs postgres t, 0 2 * * * select 2 jobs postgres t, \
                off 0 3 * * * vacuum other anna f";
    assert_eq!(s.text(look), jobs);
    assert_eq!(s.refused("select scylla.import_cron_jobs()"), "55000");
    // A dump contains the schema; the extension takes its functions along.
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, "jobs"]);
    server.connect().run("create database restored");
    server.tool("pg_restore", &["-e", "-d", "restored", &path]);
    let restored = theirs.database.named("restored");
    let mut r = restored.connect();
    assert_eq!(r.text(look), jobs.replace("jobs", "restored"));
    assert_eq!(r.value::<i64>("select cron.schedule('plain', '0 5 * * *', 'select 5')", &[]), 1);
    assert_eq!(r.refused("drop extension scylla"), "2BP01");
    r.run("drop extension scylla cascade");
    let left = "select count(*) from pg_depend d join pg_namespace n on d.refobjid = n.oid
        where n.nspname = 'cron' and d.deptype = 'n'";
    assert_eq!(r.count(left), 0);
    r.run("drop schema cron");
}
