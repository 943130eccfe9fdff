//! Runs after crashes and restarts.

use crate::{assert_no_time_twice, counts};
use client::*;

/// I1: kill -9 in the middle of firing, again and again: no time fires twice, none is lost.
#[test]
fn a_crash_neither_doubles_nor_loses_a_run() {
    let server = Server::start(&["restart_after_crash = on"]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('s' || n, 'every 1 second', 'q', misfire => 'all')
         from generate_series(1, 300) n",
    );
    for round in 0..6 {
        let runs = s.count("select sum(fired)::bigint from scylla.schedule");
        eventually(seconds(20), "they fire", || {
            (s.count("select sum(fired)::bigint from scylla.schedule") > runs + 150).then_some(())
        });
        let leases = s.own("w", "q", 50);
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            leases.iter().map(|it| (it.id, it.token)).unzip();
        s.value::<Vec<Option<String>>>("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
        if round % 2 == 0 {
            server.kill();
            server.start_again();
        } else {
            server.kill_process(database.scheduler());
        }
        s = eventually(seconds(20), "connect", || database.try_connect().ok());
    }
    eventually(seconds(60), "all have caught up", || {
        (s.count("select count(*) from scylla.missed") == 0
            && s.count("select count(*) from scylla.schedule where next_run < clock_timestamp() - interval '1 s'") == 0)
            .then_some(())
    });
    s.run("select scylla.open(false)");
    assert!(assert_no_time_twice(&mut s) > 900, "150 and more in each round");
    let lost = s.count(
        "select count(*) from (
             select name, t - lag(t) over (partition by name order by t) as gap from (
                 select split_part(key, '@', 1) as name, split_part(key, '@', 2)::timestamptz as t
                 from scylla.tasks) a) b
         where gap <> interval '1 second'",
    );
    assert_eq!(lost, 0);
    // the counts are those of the tasks
    let differ = s.count(
        "select count(*) from scylla.schedules s
         where fired <> (select count(*) from scylla.tasks t where t.key like s.name || '@%')
            or completed <> (select count(*) from scylla.tasks t
                where t.key like s.name || '@%' and t.status = 'completed')",
    );
    assert_eq!(differ, 0);
}

/// The policies after real down time, of some seconds.
#[test]
fn down_time_is_not_forgotten_over_a_restart() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for misfire in ["skip", "once", "all"] {
        let sql = format!(
            "select scylla.schedule('{misfire}', 'every 1 second', 'q', misfire => '{misfire}')"
        );
        s.run(&sql);
    }
    eventually(seconds(10), "they fire", || (counts(&mut s, "skip").0 > 1).then_some(()));
    // Runs from before the scheduler came to them were missed, too.
    let [skipped, others] = ["skip", "once"].map(|name| counts(&mut s, name).1);
    server.stop("fast");
    sleep(milliseconds(4_200));
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(10), "they fire again", || {
        (counts(&mut s, "skip").1 > skipped).then_some(())
    });
    s.run("select scylla.open(false)");
    let [skip, once, all] = ["skip", "once", "all"].map(|name| counts(&mut s, name));
    let missed = skip.1 - skipped;
    assert!(missed >= 4 && once.1 - others == missed - 1, "{skip:?} {once:?}");
    let reached = |it: (i64, i64)| it.0 + it.1;
    assert!((reached(skip) - reached(once)).abs() <= 1 && all.1 == 0, "{skip:?} {once:?} {all:?}");
    assert_no_time_twice(&mut s);
}

/// A closed database fires nothing; then the policies apply.
#[test]
fn a_closed_database_fires_nothing() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('a', 'every 1 second', 'q', misfire => 'skip'), scylla.open(false)",
    );
    let before = counts(&mut s, "a").0;
    sleep(milliseconds(2_500));
    assert_eq!(counts(&mut s, "a").0, before);
    s.run("select scylla.open()");
    eventually(seconds(5), "it fires", || (counts(&mut s, "a").0 > before).then_some(()));
    assert!(counts(&mut s, "a").1 >= 2, "{:?}", counts(&mut s, "a"));
}

/// A schedule of starts runs once after each one of the server, however it ended; not when the
/// scheduler alone starts again, or a closed database is opened.
#[test]
fn a_schedule_of_starts_runs_once_after_each() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('at start', ' @Reboot ', 'q', overlap => 'allow'),
                  scylla.schedule('off', '@restart', 'q'),
                  scylla.schedule('over', '@restart', 'q', ends_at => now()),
                  scylla.schedule('often', 'every 1 second', 'q')",
    );
    s.run("select scylla.alter_schedule('off', active => false)");
    // What fires after the start shows that this one's turn is over.
    let fired_after = |s: &mut Session, starts: i64| {
        let often = counts(s, "often").0;
        eventually(seconds(20), "others fire", || (counts(s, "often").0 > often + 1).then_some(()));
        assert_eq!(
            ["at start", "off", "over"].map(|name| counts(s, name)),
            [(starts, 0), (0, 0), (0, 0)]
        );
    };
    fired_after(&mut s, 0);
    let pid = database.scheduler();
    s.run(&format!("select pg_terminate_backend({pid})"));
    fired_after(&mut s, 0);
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    fired_after(&mut s, 1);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    fired_after(&mut s, 2);
    s.run("select scylla.open(false)");
    s.run("select scylla.open()");
    fired_after(&mut s, 2);
    assert_no_time_twice(&mut s);
    server.assert_log_is_clean();
}
