//! Dumps of large databases: restored they are equal and closed, and nothing fires meanwhile: I12.
//! An upgraded server is equal and open.

use crate::run::Run;
use client::*;
use rand::RngExt;
use std::process::{Command, Output};

/// How many tasks are dumped: most of them in a queue, the rest delayed, leased, settled, in
/// graphs.
const TASKS: i32 = 100_000;
const SCHEDULES: i64 = 200;

/// The rows that a dump keeps, in figures.
const ALL: &str = "select string_agg(format('%s %s %s', name, rows, md5), '; ' order by name) from (
    select 'task' as name, count(*) as rows, md5(string_agg(t::text, '' order by id)) from scylla.task t
    union all
    select 'dependency', count(*), md5(string_agg(d::text, '' order by d::text)) from scylla.dependency d
    union all
    select 'finished', count(*), md5(string_agg(f::text, '' order by id)) from scylla.finished f
    union all
    select 'schedule', count(*), md5(string_agg((to_jsonb(s) - '{id}'::text[])::text, '' order by name))
        from scylla.schedule s
    union all
    select 'queue', count(*), md5(string_agg(q::text, '' order by queue)) from scylla.queue q) a";

fn fill(s: &mut Session, random: &mut impl RngExt) {
    let settled = random.random_range(5_000..10_000);
    s.submit_many("settled", settled);
    s.run(&format!(
        "select count(scylla.return_tasks(array[id], array[token]))
         from scylla.own_tasks('w', 'settled', {})",
        settled - 1_000
    ));
    let graphs = random.random_range(2_000..5_000);
    s.run(&format!(
        "do $$ declare t uuid; begin
             for n in 1..{graphs} loop
                 t := scylla.submit('graph', key => 'k' || n);
                 t := scylla.submit('graph', after => array[t], on_failure => 'run');
                 perform scylla.submit('graph', after => array[t], group_key => 'g' || n % 10);
             end loop; end $$"
    ));
    // Due while the restored database is still closed.
    s.run(
        "select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
             'queue', 'due', 'run_at', clock_timestamp() + interval '1 ms' * n))
         from generate_series(20000, 30000, 5) n))",
    );
    s.run(&format!(
        "select scylla.schedule('s' || n, 'every 1 second', 'runs', starts_at => now() + interval '20 s')
         from generate_series(1, {SCHEDULES}) n;
         select scylla.configure_queue('settled', max_running => 7, retention => '30 d')"
    ));
    let rest = TASKS - s.count("select count(*) from scylla.tasks") as i32;
    s.submit_many("q", rest);
    s.run(
        "select count(*) from scylla.own_tasks('w', 'graph', 500, timeout => '1 hour');
         select scylla.open(false)",
    );
}

pub fn dump_and_restore(run: &mut Run) -> String {
    let server = Server::start(&["fsync = off", "maintenance_work_mem = '256 MB'"]);
    let database = server.database();
    let mut s = database.connect();
    fill(&mut s, &mut run.random);
    // It is closed, so that nothing fires there either.
    let before = s.text(ALL);
    let path = |name: &str| server.path(name).to_str().unwrap().to_owned();
    let ways: [(&[&str], &str, &[&str]); 3] = [
        (&["-Fd", "-j2"], "pg_restore", &["-e", "-j2"]),
        (&["-Fp"], "psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]),
        (&["-Fc"], "pg_restore", &["-e", "-1"]),
    ];
    let mut fired = 0;
    for n in 0..run.times {
        let (dump, tool, restore) = ways[n % ways.len()];
        let file = path(&format!("dump {n}"));
        server.tool("pg_dump", &[dump, &["-f", &file, &database.name]].concat());
        let restored = server.bare_database();
        server.tool(tool, &[&["-d", &restored.name], restore, &[&file]].concat());
        let mut r = restored.connect();
        assert_eq!(r.text(ALL), before, "{tool}");
        restored.scheduler();
        let due = "select count(*) from scylla.task where queue = 'due'
                   and run_at > clock_timestamp() - interval '1 s'";
        eventually(seconds(60), "their times have come", || (r.count(due) == 0).then_some(()));
        assert_eq!(r.text(ALL), before, "{tool}: nothing fires in a closed database");
        assert!(r.own("w", "q", 10).is_empty(), "nor is anything handed out");
        r.run("select scylla.open()");
        eventually(seconds(60), "opened, it fires what is due", || {
            let ready = r.count(
                "select count(*) from scylla.tasks where queue = 'due' and status = 'ready'",
            );
            fired = r.count("select sum(fired)::bigint from scylla.schedules");
            (ready > 2_000 && fired >= SCHEDULES).then_some(())
        });
        let ready = r.count("select count(*) from scylla.own_tasks('w', 'graph', 10000)");
        assert_eq!(
            ready,
            r.count("select count(*) from scylla.task where queue = 'graph' and key is not null")
        );
        r.counts_agree(seconds(30));
        run.made_one();
    }
    assert_eq!(s.text(ALL), before, "the original is as it was");
    server.assert_log_is_clean();
    format!("{}; opened, {fired} runs fired", before.replace(char::is_whitespace, " "))
}

/// Runs a command in a Debian that has two versions of PostgreSQL, and returns what it printed.
fn in_debian(command: &str) -> Result<String, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/debian");
    let Output { status, stdout, stderr } =
        Command::new(script).args(["trixie", command]).output().expect("scripts/debian runs");
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(said);
    }
    // without all the lines of apt and cargo
    Err(format!("{said}{}", last_lines(&String::from_utf8_lossy(&stderr), 10)))
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The steps and the comparisons are those of a script, which runs alone, too.
pub fn upgrade_the_server(run: &mut Run) -> String {
    if let Err(why) = in_debian("true") {
        return run.skip(&last_lines(&why, 1));
    }
    let said = in_debian("pgrx-tests/pg_upgrade/run").unwrap_or_else(|why| panic!("{why}"));
    run.made_one();
    last_lines(&said, 1)
}
