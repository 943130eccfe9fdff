//! Tasks that the scheduler cannot write, and processes for SQL tasks that are killed: I1, I10,
//! B114, B123.

use crate::run::Run;
use crate::victim::{Victim, soon_enough};
use client::*;
use rand::RngExt;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How late a task may fire that is no poison.
const LATE: Duration = seconds(5);
/// How soon commands run again after a process was killed.
const BACK: Duration = seconds(5);

/// Poison tasks all at once: half of them cannot fire, the leases of the others cannot expire.
pub fn poison(run: &mut Run) -> String {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "create function public.refuse(action text, updated timestamptz, created timestamptz)
             returns boolean language plpgsql immutable as $$ begin
                 if action = 'bad' and updated > created then raise exception 'no'; end if;
                 return true;
             end $$;
         create index refuse on scylla.task (public.refuse(action, updated, created))",
    );
    let count = run.times as i64;
    s.run(&format!(
        "select scylla.submit('held', action => 'bad') from generate_series(1, {count})"
    ));
    s.own_with("w", "held", run.times as i32, "timeout => '1 s'");
    s.run(&format!(
        "select scylla.submit('bad', action => 'bad', run_at => clock_timestamp() + interval '1 s')
         from generate_series(1, {count})"
    ));
    let mut times = Vec::new();
    for wave in 0..8 {
        s.submit_many("lease", 100);
        s.own_with("w", "lease", 100, "timeout => '500 ms'");
        let pause = milliseconds(run.random.random_range(300..700));
        s.run(&format!(
            "select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
                 'queue', 'time', 'run_at', clock_timestamp() + interval '{} ms'))
             from generate_series(1, 500)))",
            pause.as_millis()
        ));
        sleep(pause.max(milliseconds(500)));
        let due = Instant::now();
        let left = "select count(*) from scylla.tasks
                    where queue in ('time', 'lease') and status in ('waiting', 'running')";
        eventually(seconds(60), &format!("the others of wave {wave} are ready"), || {
            (s.count(left) == 0).then_some(())
        });
        times.push(due.elapsed());
        s.run("select scylla.cancel_tasks(array(select id from scylla.tasks where queue in ('time', 'lease') and status = 'ready'))");
    }
    let slowest = soon_enough(&times, LATE);
    let stuck = "select count(*) from scylla.tasks where queue in ('bad', 'held')
                 and status in ('waiting', 'running')";
    assert_eq!(s.count(stuck), 2 * count, "poison tasks stay as they are");
    let named = server.log().matches("scylla could not fire task").count();
    assert!(named >= run.times, "{named} tasks that do not fire are named in the log");
    (0..run.times).for_each(|_| run.made_one());
    s.run("drop index scylla.refuse");
    if run.is_whole() {
        eventually(seconds(150), "they are tried again", || (s.count(stuck) == 0).then_some(()));
    }
    server.assert_log_is_clean();
    format!("{} poison tasks, the others ready within {} ms", 2 * count, slowest.as_millis())
}

/// Kills processes that run SQL tasks. A command notes in a table that it began, and commits; so it
/// is known how often it did.
pub fn kill_sql_workers(run: &mut Run) -> String {
    let victim = Victim::start(&["scylla.sql_workers = 3"]);
    let mut s = victim.database.connect();
    s.run("create table begun (task int, at timestamptz default clock_timestamp())");
    let mut tries: HashMap<Uuid, (i32, i32)> = HashMap::new();
    let mut times = Vec::new();
    let mut number = 0;
    for _ in 0..run.times {
        for _ in 0..6 {
            number += 1;
            let (most, ms) = (run.random.random_range(1..4), run.random.random_range(0..400));
            let command = format!(
                "insert into begun values ({number}); commit; select pg_sleep({ms} / 1000.0)"
            );
            let sql = "select scylla.run_sql($1, max_tries => $2, retry_interval => '10 ms')";
            tries.insert(s.value(sql, &[&command, &most]), (number, most));
        }
        sleep(milliseconds(run.random.random_range(0..300)));
        victim.kill("backend_type = 'scylla sql worker'", run);
        s = victim.database.connect();
        let began = Instant::now();
        let id: Uuid = s.value("select scylla.run_sql('select 1', priority => 9)", &[]);
        eventually(seconds(60), "a command runs", || (s.status(id) == "completed").then_some(()));
        times.push(began.elapsed());
        run.made_one();
    }
    let left = "select count(*) from scylla.task";
    eventually(seconds(60), "every command ends", || (s.count(left) == 0).then_some(()));
    let begun: HashMap<i32, i64> =
        (s.query("select task, count(*) from begun group by 1", &[]).unwrap().iter())
            .map(|row| (row.get(0), row.get(1)))
            .collect();
    let (mut completed, mut again) = (0, 0);
    for (id, (number, most)) in &tries {
        let entry = s.entry(*id);
        let times = begun.get(number).copied().unwrap_or(0);
        let known = entry["tries"].as_i64().expect("a number");
        let what = format!("{id} of {most} tries began {times} times: {entry}");
        assert!(times <= known && known <= i64::from(*most), "{what}");
        match entry["status"].as_str() {
            Some("completed") => assert!(times > 0, "{what}"),
            Some("aborted") => assert_eq!(known, i64::from(*most), "{what}"),
            _ => panic!("{what}"),
        }
        completed += usize::from(entry["status"] == "completed");
        again += usize::from(times > 1);
    }
    let slowest = soon_enough(&times, BACK);
    victim.server.assert_log_is_clean();
    format!(
        "{} commands, {completed} completed, {again} began again; back within {} ms",
        tries.len(),
        slowest.as_millis()
    )
}
