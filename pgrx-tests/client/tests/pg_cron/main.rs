//! The schema `cron`: a script that is written for pg_cron gets the same answers from scylla.

mod regression;

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

/// For each step: who runs it, and what. `{name}` is the number of the job of that name, of any
/// role; of one without a name, of its schedule.
const SCRIPT: &[(&str, &str)] = &[
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
    ("anna", "insert into cron.job (schedule, command) values ('@daily', 'select 1')"),
    ("anna", "delete from cron.job"),
    ("postgres", "delete from cron.job where username = 'anna' and jobname = 'names'"),
    ("postgres", "update cron.job set active = true, command = 'select 7', nodename = '' where jobname = 'tick' returning command, active"),
    ("postgres", "update cron.job set jobname = 'daily' where jobname = 'tick' and username = 'bert'"),
    ("postgres", "update cron.job set jobname = 'tock', nodename = 'localhost' where jobname = 'tick' and username = 'bert'"),
    ("postgres", "update cron.job set username = 'bert' where jobname = 'in3'"),
    ("postgres", "update cron.job set schedule = null where jobname = 'tock'"),
    ("postgres", "insert into cron.job (schedule, command, nodename, nodeport, database, username)
        values ('0 4 * * *', 'vacuum', 'localhost', current_setting('port')::int, current_database(), 'bert')
        returning jobid > 0, active, username, nodename"),
    ("postgres", "update cron.job set nodename = 'localhost' where jobname = 'daily' or jobname = 'tick'"),
    ("postgres", "insert into cron.job (schedule, command, jobname, username, nodeport)
        values ('0 4 * * *', 'vacuum', 'daily', 'bert', current_setting('port')::int)"),
    ("postgres", "insert into cron.job (schedule, command, jobname, nodeport)
        values ('@hourly', 'select 1', 'mine', current_setting('port')::int)
        returning username, database = current_database()"),
    ("postgres", JOBS),
    ("postgres", "grant update, delete on cron.job to anna"),
    ("anna", "update cron.job set command = 'select 8'"),
    ("anna", "update cron.job set username = 'postgres'"),
    ("anna", "delete from cron.job where command = 'select 8' and jobname = 'tick'"),
    ("postgres", JOBS),
    ("anna", "delete from cron.job_run_details"),
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

fn play(sessions: &mut Sessions, script: &[(&'static str, &str)]) -> Vec<Vec<String>> {
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    let mut answers = Vec::new();
    for &(role, sql) in script {
        let look =
            "select coalesce(jobname::text, schedule), min(jobid)::text from cron.job group by 1";
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

/// Whether two answers are the same. The names of jobs are of type `text`, before version 1.5 of
/// pg_cron `name`; of an error, pg_cron often gives no SQLSTATE of its own.
fn same(pg_cron: &[String], scylla: &[String]) -> bool {
    let as_text = |row: &String| {
        row.replace("jobname|name", "jobname|text")
            .replace("unschedule|job_name name", "unschedule|job_name text")
            .replace("schedule|job_name name", "schedule|job_name text")
    };
    pg_cron.iter().map(as_text).eq(scylla.iter().cloned())
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
    let (theirs, ours) = (play(&mut theirs, SCRIPT), play(&mut ours, SCRIPT));
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
    // Who deletes, deletes the runs of its own jobs.
    for sessions in [&mut theirs, &mut ours] {
        sessions.of("anna").run("select cron.unschedule(jobid) from cron.job");
        let ended = "select count(*) from cron.job_run_details where end_time < now()";
        let before = sessions.of("anna").count(ended);
        assert!(before >= jobs.len() as i64);
        sessions.of("bert").run("delete from cron.job_run_details");
        assert_eq!(sessions.of("anna").count(ended), before);
        let delete = "delete from cron.job_run_details where end_time < now()";
        assert_eq!(sessions.of("anna").execute(delete, &[]).unwrap() as i64, before);
        assert_eq!(sessions.of("postgres").count(ended), 0);
    }
    assert_eq!(ours.of("postgres").count("select count(*) from scylla.finished"), 0);
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
    // Steps beyond the last value, which some versions of pg_cron refuse.
    assert_eq!(
        runs(&mut s, "*/60 1-3/7 * */13 *"),
        "2029-01-01 01:00:00+00 2029-01-02 01:00:00+00"
    );
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
    // What pg_cron would run otherwise: of six fields it ignores the last, and it connects to a
    // node.
    s.run("select cron.schedule('six', '0 5 * * * 3', 'select 6')");
    for name in ["away", "near", "port"] {
        s.run(&format!("select cron.schedule('{name}', '0 6 * * *', 'select 1')"));
    }
    s.run("update cron.job set nodename = 'elsewhere.example' where jobname = 'away'");
    s.run("update cron.job set nodename = '/tmp' where jobname = 'near'");
    s.run("update cron.job set nodeport = 1 where jobname = 'port'");
    s.run("update cron.job set jobid = 5000 where jobname = 'off'");
    s.run("update cron.job set jobid = 1 where jobname = 'plain'");
    // The number of another schedule.
    let taken: i64 = s.value("select scylla.schedule('own', '@daily', 'q')", &[]);
    s.run(&format!("update cron.job set jobid = {taken} + 9000 where jobid = {taken}"));
    s.run(&format!(
        "select cron.schedule('taken', '0 7 * * *', 'select 1');
        update cron.job set jobid = {taken} where jobname = 'taken'"
    ));
    let numbers = "select string_agg(jobid::text, ' ' order by schedule, jobname) from cron.job
        where coalesce(jobname, 'near') in ('plain', 'off', 'near')";
    let before = s.text(numbers);
    assert_eq!(s.value::<i64>("select scylla.import_cron_jobs()", &[]), 5);
    let left = "select string_agg(jobname, ' ' order by jobname) from cron.job";
    assert_eq!(s.text(left), "away never port six taken");
    for name in ["away", "never", "port", "six", "taken"] {
        assert!(
            server.log().contains(&format!(" \"{name}\" of pg_cron was not imported")),
            "{name}"
        );
    }
    s.run("select scylla.unschedule('own')");
    assert_eq!(s.refused("select scylla.disable_cron_api()"), "42809");
    s.run("drop extension pg_cron");
    s.run("select scylla.enable_cron_api()");
    let look = "select string_agg(concat_ws(' ', jobname, schedule, command, database, username, active), ', '
        order by schedule) from cron.job";
    let jobs = "plain 0 1 * * * select 1 jobs postgres t, 0 2 * * * select 2 jobs postgres t, \
                off 0 3 * * * vacuum other anna f, near 0 6 * * * select 1 jobs postgres t, \
         reboot @reboot select 1 jobs postgres t";
    assert_eq!(s.text(look), jobs);
    assert_eq!(s.text(numbers), before, "jobs keep their numbers");
    let later = "select cron.schedule('later', '@daily', 'select 1')";
    assert!(s.value::<i64>(later, &[]) > 5000);
    s.run("select cron.unschedule('later')");
    assert_eq!(s.refused("select scylla.import_cron_jobs()"), "55000");
    // A dump contains the schema; the extension takes its functions along.
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, "jobs"]);
    server.connect().run("create database restored");
    server.tool("pg_restore", &["-e", "-d", "restored", &path]);
    let restored = theirs.database.named("restored");
    let mut r = restored.connect();
    assert_eq!(r.text(look), jobs.replace("jobs", "restored"));
    let plain: i64 = r.value("select jobid from cron.job where jobname = 'plain'", &[]);
    let again = "select cron.schedule('plain', '0 5 * * *', 'select 5')";
    assert_eq!(r.value::<i64>(again, &[]), plain);
    assert_eq!(r.refused("drop extension scylla"), "2BP01");
    r.run("drop extension scylla cascade");
    let left = "select count(*) from pg_depend d join pg_namespace n on d.refobjid = n.oid
        where n.nspname = 'cron' and d.deptype = 'n'";
    assert_eq!(r.count(left), 0);
    r.run("drop schema cron");
}

/// A job's name is shown whole; the views are written by roles that were granted that, and only as
/// the functions would do it.
#[test]
fn views_are_written_as_the_functions_do_it() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    let name = "ü".repeat(100);
    let id: i64 = s.value("select cron.schedule($1, '@daily', 'select 1')", &[&name]);
    let shown: String = s.value("select jobname from cron.job where jobid = $1", &[&id]);
    assert_eq!(shown, name);
    assert!(s.value::<bool>("select cron.unschedule($1)", &[&name]));
    assert_eq!(s.refused("select cron.schedule(repeat('n', 1025), '@daily', 'select 1')"), "22023");
    let insert =
        "insert into cron.job (schedule, command, nodename) values ('@daily', 'select 1', 'away')";
    assert_eq!(s.refused(insert), "0A000");
    s.run("insert into cron.job (schedule, command, jobname) values ('@daily', 'select 1', 'j')");
    for (change, code) in [
        ("jobid = 7", "0A000"),
        ("nodename = 'away'", "0A000"),
        ("schedule = 'never'", "22023"),
        ("command = ''", "22023"),
        ("command = null", "22004"),
        ("username = 'absent'", "42704"),
        ("database = 'absent'", "3D000"),
    ] {
        assert_eq!(s.refused(&format!("update cron.job set {change}")), code, "{change}");
    }
    // A run that has not ended stays.
    s.run("update cron.job set schedule = '1 second', command = 'select pg_sleep(60)'");
    let running = "select count(*) from cron.job_run_details where status = 'running'";
    eventually(seconds(20), "a run has begun", || (s.count(running) == 1).then_some(()));
    let process = "select count(*) from cron.job_run_details d
        join pg_stat_activity a on a.pid = d.job_pid and a.query like '%pg_sleep(60)%'";
    eventually(seconds(5), "its process is shown", || (s.count(process) == 1).then_some(()));
    s.run("delete from cron.job_run_details where status = 'running'");
    assert_eq!(s.count(running), 1);
    s.run("delete from cron.job");
    assert_eq!(s.count("select count(*) from scylla.schedules"), 0);
}

/// Numbers of jobs have 64 bits: one that another job's is a part of names none.
#[test]
fn numbers_of_jobs_are_read_whole() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    let id: i64 = s.value("select cron.schedule('j', '@daily', 'select 1')", &[]);
    let great = id + (1 << 32);
    let calls =
        ["select cron.alter_job($1, command => 'select 2')", "select cron.unschedule($1::bigint)"];
    for call in calls {
        assert_eq!(s.refusal(call, &[&great]).code().code(), "P0002", "{call}");
    }
    let jobs = "select string_agg(jobid || ' ' || command, ', ') from cron.job";
    assert_eq!(s.text(jobs), format!("{id} select 1"));
    // The next numbers are as great.
    s.run(&format!("alter sequence scylla.schedule_id_seq restart {great}"));
    assert_eq!(s.value::<i64>("select cron.schedule('k', '@daily', 'select 1')", &[]), great);
    s.execute(calls[0], &[&great]).unwrap();
    assert_eq!(s.text(jobs), format!("{id} select 1, {great} select 2"));
    s.execute(calls[1], &[&great]).unwrap();
    assert_eq!(s.text(jobs), format!("{id} select 1"));
    // So has the priority that a view asks about.
    s.submit_with("q", "priority => 4294967295");
    let front = "select lowest from scylla._front('q', '', 4294967295)";
    assert_eq!(s.count(front), 4_294_967_295);
}

/// Names of schedules that begin with `cron:` are those of jobs. A job whose name another schedule
/// has gets the next number.
#[test]
fn names_of_jobs_are_theirs() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    for call in [
        "schedule('cron:412', '@daily', 'q')",
        "schedule_sql('cron:412', '@daily', 'select 1')",
        "schedule('cron:', '@daily', 'q')",
    ] {
        assert_eq!(s.refused(&format!("select scylla.{call}")), "22023", "{call}");
    }
    s.run(
        "select scylla.schedule('cron', '@daily', 'q'), scylla.schedule('Cron:1', '@daily', 'q')",
    );
    let last: i64 = s.value("select scylla.schedule('old', '@daily', 'q')", &[]);
    // As one of before.
    s.run(&format!("update scylla.schedule set name = 'cron:{}' where name = 'old'", last + 1));
    let job: i64 = s.value("select cron.schedule('@daily', 'select 1')", &[]);
    assert_eq!(job, last + 2);
    let name: String = s.value("select name from scylla.schedules where id = $1", &[&job]);
    assert_eq!(name, format!("cron:{job}"));
}

/// pg_cron's time zone becomes that of the jobs; versions before 1.5 know UTC only.
#[test]
fn jobs_are_imported_with_their_time_zone() {
    let server = Server::start(&[
        "shared_preload_libraries = 'scylla, pg_cron'",
        "cron.database_name = 'jobs'",
        "cron.timezone = 'Europe/Berlin'",
    ]);
    server.connect().run("create database jobs");
    let database = server.database().named("jobs");
    let mut s = database.connect();
    s.run("create extension pg_cron; create extension scylla");
    s.run("select cron.schedule('j', '0 9 1 1 *', 'select 1')");
    let zone = s.text("select coalesce(current_setting('cron.timezone', true), '')");
    assert_eq!(s.value::<i64>("select scylla.import_cron_jobs()", &[]), 1);
    let look = "select time_zone || to_char(next_run at time zone 'UTC', ' HH24:MI') from scylla.schedules";
    let expected = if zone.is_empty() { "UTC 09:00" } else { "Europe/Berlin 08:00" };
    assert_eq!(s.text(look), expected, "the server's time zone: {zone}");
}
