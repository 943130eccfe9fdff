//! `import`: jobs of other job tables, made by the statements of their own packages, each once.

use super::server::*;
use std::env;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Jobs of a system: two that wait, of which one is due later, one that runs, and one that failed.
struct Peer {
    name: &'static str,
    /// The tables, where the system's package does not have them as SQL.
    tables: Option<&'static str>,
    jobs: &'static str,
    /// Of each task: queue, action, spec, priority, whether it waits, its tries, key, and group.
    tasks: &'static str,
    /// A part of what is told about changes.
    change: &'static str,
}

const TASKS: &str =
    "select string_agg(concat_ws('|', queue, action, spec, priority, status, max_tries, key,
    group_key), E'\\n' order by spec::text) from scylla.tasks";

/// What the gem's schema has, as far as an import reads it: a machine may have no Ruby.
const SOLID_QUEUE: &str =
    "create table solid_queue_jobs (id bigserial primary key, queue_name varchar not null,
        class_name varchar not null, arguments text, priority integer default 0 not null,
        active_job_id varchar, scheduled_at timestamp(6), finished_at timestamp(6),
        concurrency_key varchar, created_at timestamp(6) default timezone('UTC', now()) not null);
    create table solid_queue_claimed_executions (job_id bigint not null unique);
    create table solid_queue_failed_executions (job_id bigint not null unique, error text);
    create table solid_queue_pauses (queue_name varchar not null unique)";

impl Peer {
    fn database(&self) -> Database<'static> {
        let database = Database::bare(shared());
        match self.tables {
            Some(tables) => database.sql(tables),
            None => {
                let folder = env::var("SCYLLA_PEERS").expect("tools/scylla-pg/test runs the tests");
                let file = format!("{folder}/{}.sql", self.name);
                let psql = format!("{}/psql", shared().variable("SCYLLA_BIN"));
                let mut psql = shared().command(&psql, &database.name);
                let ran = ran(psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", &file]));
                assert_eq!(ran.status, 0, "{}: {}", self.name, ran.err);
                String::new()
            }
        };
        database.sql(self.jobs);
        database
    }

    /// The jobs become tasks that mean the same; what does not move stays and is told.
    fn moves(&self) {
        let source = self.database();
        let jobs = Database::of(shared());
        let import = ["import", "--from", self.name, "--source", &source.name];
        let told = jobs.done(&[&import[..], &["--dry-run"]].concat());
        assert!(told.contains(self.change), "{told}");
        assert!(told.contains("running at the peer"), "{told}");
        assert!(told.contains("failed at the peer"), "{told}");
        assert_eq!(jobs.sql("select count(*) from scylla.tasks"), "0");
        let told = jobs.done(&import);
        assert!(told.ends_with("2 imported, 0 by an earlier run"), "{told}");
        assert_eq!(jobs.sql(TASKS), self.tasks, "{}", self.name);
        // Tasks that are gone do not come again, and the one that runs is taken when it is asked
        // for.
        jobs.sql("select scylla.delete_tasks(array_agg(id)) from scylla.tasks");
        let last = jobs.json(&import).pop().unwrap();
        assert_eq!(last["earlier"], 2, "{last}");
        assert_eq!(jobs.sql("select count(*) from scylla.tasks"), "0");
        let last = jobs.json(&[&import[..], &["--running"]].concat()).pop().unwrap();
        assert_eq!((&last["imported"], &last["earlier"]), (&1.into(), &2.into()), "{last}");
    }
}

#[test]
fn jobs_of_graphile_worker_become_tasks() {
    Peer {
        name: "graphile-worker",
        tables: None,
        jobs: "select graphile_worker.add_job('mail', '{\"n\": 1}', max_attempts => 5, job_key => 'k');
            select graphile_worker.add_job('mail', '{\"n\": 2}', queue_name => 'serial',
                run_at => now() + '1 day', priority => 3);
            select graphile_worker.add_job('mail', '{\"n\": 3}');
            select graphile_worker.add_job('mail', '{\"n\": 4}');
            update graphile_worker._private_jobs set attempts = 2 where id = 1;
            update graphile_worker._private_jobs set locked_at = now(), locked_by = 'w' where id = 3;
            update graphile_worker._private_jobs set attempts = max_attempts where id = 4",
        tasks: "graphile-worker|mail|{\"n\": 1}|100|ready|3|k\n\
            graphile-worker.serial|mail|{\"n\": 2}|97|waiting|25|serial",
        change: "one job at a time",
    }
    .moves();
}

#[test]
fn jobs_of_pg_boss_become_tasks() {
    Peer {
        name: "pg-boss",
        tables: None,
        jobs: "select pgboss.create_queue('mail', '{\"policy\": \"standard\"}');
            insert into pgboss.job (name, data, priority, retry_limit, retry_count, started_on, state, policy, created_on)
            values ('mail', '{\"n\": 1}', 5, 4, 1, now(), 'retry', 'standard', now() - interval '2 s');
            insert into pgboss.job (name, data, retry_limit, singleton_key, policy, start_after, created_on)
            values ('mail', '{\"n\": 2}', 2, 'k', 'short', now() + interval '1 day', now() - interval '1 s');
            insert into pgboss.job (name, data, state, retry_limit, policy)
            values ('mail', '{}', 'active', 2, 'standard'), ('mail', '{}', 'failed', 2, 'standard')",
        tasks: "mail||{\"n\": 1}|105|ready|3\nmail||{\"n\": 2}|100|waiting|3|k",
        change: "policy short",
    }
    .moves();
}

#[test]
fn jobs_of_river_become_tasks() {
    Peer {
        name: "river",
        tables: None,
        jobs: "insert into river_job (state, queue, kind, args, max_attempts, attempt, priority, scheduled_at, unique_key,
                finalized_at)
            values ('retryable', 'default', 'mail', '{\"n\": 1}', 25, 5, 1, now(), '\\x0102', null),
                ('scheduled', 'default', 'mail', '{\"n\": 2}', 25, 0, 4, now() + interval '1 day', null, null),
                ('running', 'default', 'mail', '{}', 25, 1, 1, now(), null, null),
                ('discarded', 'default', 'mail', '{}', 25, 25, 1, now(), null, now()),
                ('completed', 'default', 'mail', '{}', 25, 1, 1, now(), null, now())",
        tasks: "default|mail|{\"n\": 1}|100|ready|20|0102\ndefault|mail|{\"n\": 2}|97|waiting|25",
        change: "unique job",
    }
    .moves();
}

#[test]
fn jobs_of_oban_become_tasks() {
    Peer {
        name: "oban",
        tables: None,
        jobs: "insert into oban_jobs (state, queue, worker, args, max_attempts, attempt, priority, scheduled_at, meta)
            values ('retryable', 'default', 'Mail', '{\"n\": 1}', 20, 5, 0, timezone('UTC', now()), '{\"uniq\": true}'),
                ('scheduled', 'default', 'Mail', '{\"n\": 2}', 20, 0, 9, timezone('UTC', now()) + interval '1 day', '{}'),
                ('executing', 'default', 'Mail', '{}', 20, 1, 0, timezone('UTC', now()), '{}'),
                ('discarded', 'default', 'Mail', '{}', 20, 20, 0, timezone('UTC', now()), '{}')",
        tasks: "default|Mail|{\"n\": 1}|100|ready|15\ndefault|Mail|{\"n\": 2}|91|waiting|20",
        change: "unique job",
    }
    .moves();
}

#[test]
fn jobs_of_solid_queue_become_tasks() {
    Peer {
        name: "solid-queue",
        tables: Some(SOLID_QUEUE),
        jobs: "insert into solid_queue_jobs (queue_name, class_name, arguments, priority, scheduled_at, concurrency_key)
            values ('default', 'Mail', '{\"arguments\": [1], \"executions\": 1}', 0, timezone('UTC', now()), null),
                ('default', 'Mail', '{\"arguments\": [2]}', 7, timezone('UTC', now()) + interval '1 day', 'k'),
                ('default', 'Mail', '{}', 0, timezone('UTC', now()), null),
                ('default', 'Mail', '{}', 0, timezone('UTC', now()), null);
            insert into solid_queue_claimed_executions values (3);
            insert into solid_queue_failed_executions values (4, 'no')",
        tasks: "default|Mail|{\"arguments\": [1], \"executions\": 1}|100|ready\n\
            default.serial|Mail|{\"arguments\": [2]}|93|waiting|k",
        change: "limits_concurrency",
    }
    .moves();
}

#[test]
fn jobs_of_procrastinate_become_tasks() {
    Peer {
        name: "procrastinate",
        tables: None,
        jobs: "select procrastinate_defer_jobs_v1(array[
                ('default', 'mail', 5, null, 'k', '{\"n\": 1}', null),
                ('default', 'mail', 0, 'l', null, '{\"n\": 2}', now() + interval '1 day'),
                ('default', 'mail', 0, null, null, '{}', null),
                ('default', 'mail', 0, null, null, '{}', null)]::procrastinate_job_to_defer_v1[]);
            update procrastinate_jobs set status = 'doing' where id = 3;
            update procrastinate_jobs set status = 'failed' where id = 4",
        tasks: "default|mail|{\"n\": 1}|105|ready|k\ndefault.serial|mail|{\"n\": 2}|100|waiting|l",
        change: "queueing lock",
    }
    .moves();
}

/// Statements that make jobs as the system's client makes them, by the thousand. One by one in one
/// transaction, 100,000 calls of Graphile Worker's `add_job` take more than five minutes.
const MANY: [(&str, &str); 6] = [
    (
        "graphile-worker",
        "select count(*) from (select graphile_worker.add_jobs(array_agg(row('mail', json_build_object('n', n),
            null, null, null, null, null, null)::graphile_worker.job_spec)) from many group by n / 1000) as made",
    ),
    (
        "pg-boss",
        "insert into pgboss.job (name, data, retry_limit, policy)
            select 'mail', json_build_object('n', n), 2, 'standard' from many",
    ),
    (
        "river",
        "insert into river_job (state, queue, kind, args, max_attempts)
            select 'available', 'default', 'mail', json_build_object('n', n), 25 from many",
    ),
    (
        "oban",
        "insert into oban_jobs (state, queue, worker, args, max_attempts, meta)
            select 'available', 'default', 'Mail', jsonb_build_object('n', n), 20, '{}' from many",
    ),
    (
        "solid-queue",
        "insert into solid_queue_jobs (queue_name, class_name, arguments)
            select 'default', 'Mail', json_build_object('arguments', n) from many",
    ),
    (
        "procrastinate",
        "select count(*) from (select procrastinate_defer_jobs_v1(array_agg(row('default', 'mail', 0, null, null,
            jsonb_build_object('n', n), null)::procrastinate_job_to_defer_v1)) from many group by n / 1000) as made",
    ),
];

/// Of each system, short: 12,000 jobs. SCYLLA_LONG=1: 100,000.
#[test]
fn an_import_that_is_killed_goes_on_where_it_was() {
    let count = if env::var_os("SCYLLA_LONG").is_some() { 100_000 } else { 12_000 };
    for (name, make) in MANY {
        let tables = (name == "solid-queue").then_some(SOLID_QUEUE);
        let begun = Instant::now();
        let source = Peer { name, tables, jobs: "select 1", tasks: "", change: "" }.database();
        if name == "pg-boss" {
            source.sql("select pgboss.create_queue('mail', '{\"policy\": \"standard\"}')");
        }
        source.sql(&format!("create view many as select generate_series(1, {count}) as n"));
        // A plan that is kept from when the table was empty would scan all of it for each job.
        source.sql(&format!("set enable_seqscan = off; {make}"));
        let made = begun.elapsed();
        let took = killed_three_times(name, &source, count);
        let rate = count as f64 / took.as_secs_f64();
        println!(
            "{name}: {count} jobs made in {made:.1?}, imported in {took:.1?}, {rate:.0} per second"
        );
    }
}

/// Imports jobs, kills the import three times, and returns how long its runs took.
fn killed_three_times(name: &str, source: &Database, count: i64) -> Duration {
    let jobs = Database::of(shared());
    let import = ["import", "--from", name, "--source", &source.name];
    let done = || -> i64 {
        let exists = jobs.sql("select to_regclass('scylla_import.imported') is not null");
        if exists == "f" {
            0
        } else {
            jobs.sql("select count(*) from scylla_import.imported").parse().unwrap()
        }
    };
    let mut took = Duration::ZERO;
    for round in 1..=3 {
        let begun = Instant::now();
        let mut child =
            jobs.command(&import).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while done() < round * count / 6 {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{name}: the import was over before it was killed"
            );
            sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        took += begun.elapsed();
        // Some tasks are done and gone meanwhile.
        jobs.sql("select count(scylla.delete_tasks(array(select id from scylla.tasks limit 100)))");
    }
    let before = done();
    assert!(before < count, "{name}: the import was over before it was killed: {before}");
    let begun = Instant::now();
    let last = jobs.json(&import).pop().unwrap();
    took += begun.elapsed();
    assert_eq!(
        last["imported"].as_i64().unwrap() + last["earlier"].as_i64().unwrap(),
        count,
        "{name}: {last}"
    );
    assert!(last["earlier"].as_i64().unwrap() >= before, "{name}: {last}");
    let left = "select count(*), count(distinct spec) from scylla.tasks";
    assert_eq!(jobs.sql(left), format!("{0}|{0}", count - 300), "{name}");
    took
}

#[test]
fn a_key_that_is_taken_is_told_and_its_job_comes_when_it_is_free() {
    let peer = Peer {
        name: "graphile-worker",
        tables: None,
        jobs: "select graphile_worker.add_job('mail', job_key => 'k');
            select graphile_worker.add_job('mail', job_key => 'free')",
        tasks: "",
        change: "",
    };
    let source = peer.database();
    let jobs = Database::of(shared());
    let taken = jobs.sql("select scylla.submit('graphile-worker', key => 'k')");
    let import = ["import", "--from", "graphile-worker", "--source", &source.name];
    let ran = jobs.run(&import);
    assert_eq!(ran.status, 1);
    assert!(
        ran.err.contains("1 jobs were refused") && ran.err.contains("job 1: key \"k\""),
        "{}",
        ran.err
    );
    jobs.sql(&format!("select scylla.cancel('{taken}')"));
    assert!(jobs.done(&import).ends_with("1 imported, 1 by an earlier run"));
}

#[test]
fn a_database_without_jobs_is_told() {
    let jobs = Database::of(shared());
    let ran = jobs.run(&["import", "--from", "river"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("no jobs of river in schema \"public\""), "{}", ran.err);
    assert!(ran.err.contains("HINT: Name the database by --source"), "{}", ran.err);
    assert_eq!(jobs.run(&["import", "--from", "celery"]).status, 2);
}
