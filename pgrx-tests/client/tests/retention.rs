//! Settled tasks are kept for `scylla.retention`.

use client::*;
use std::time::Instant;

/// Inserts settled tasks, `age` old, as a worker leaves them.
fn settle(s: &mut Session, queue: &str, n: i32, age: &str) {
    let sql = format!(
        "insert into scylla.finished (id, queue, action, priority, post_result, created, updated, tries, num_failures,
             progress, status, spec, errors, history)
         select gen_random_uuid(), '{queue}', '', 0, false, now(), clock_timestamp() - interval '{age}', 1, 0,
             1, 'completed', '{{}}', '[]', '[]'
         from generate_series(1, {n})"
    );
    s.run(&sql);
}

fn count(s: &mut Session, queue: &str) -> i64 {
    s.value("select count(*) from scylla.finished where queue = $1", &[&queue])
}

#[track_caller]
fn wait_until_gone(s: &mut Session, queue: &str) {
    eventually(seconds(5), "what is past is deleted", || (count(s, queue) == 0).then_some(()));
}

/// B59, B60: exactly the tasks past the retention are deleted, row by row below a day, and never a
/// live task.
#[test]
fn settled_tasks_past_retention_go_and_others_stay() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("live");
    let held = s.own_one_with("live", "timeout => '1 hour'");
    s.submit("live");
    s.submit("q");
    let settled = s.own_one("q");
    s.complete(&settled);
    assert_eq!(s.text("select tableoid::regclass::text from scylla.finished"), {
        s.text("select 'scylla.finished_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')")
    });
    // No partition was made for their day, so they are in the default one.
    settle(&mut s, "past", 2_500, "10 days 1 minute");
    settle(&mut s, "kept", 10, "9 days 23 hours");
    wait_until_gone(&mut s, "past");
    assert_eq!((count(&mut s, "kept"), count(&mut s, "q")), (10, 1));

    server.configure("scylla.retention", "4 s");
    wait_until_gone(&mut s, "kept");
    wait_until_gone(&mut s, "q");
    let complaint = s.refusal("select scylla.task($1)", &[&settled.id]);
    assert_eq!(complaint.code().code(), "P0002");
    settle(&mut s, "soon", 1, "0 s");
    sleep(milliseconds(500));
    assert_eq!(count(&mut s, "soon"), 1, "it is not past yet");

    server.configure("scylla.retention", "0");
    wait_until_gone(&mut s, "soon");
    s.submit("q");
    let settled = s.own_one("q");
    s.complete(&settled);
    wait_until_gone(&mut s, "q");
    assert_eq!(s.count("select count(*) from scylla.task"), 2);
    assert!(s.extend(&held), "live tasks are unchanged");
    server.assert_log_is_clean();
}

/// A partition is dropped when all of its tasks are past the retention. A session that reads it
/// delays the drop, and delays no return.
#[test]
fn partitions_that_are_past_are_dropped_without_waiting() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    assert!(s.own("w", "q", 1).is_empty(), "its scheduler has made the partitions");
    let there =
        "select count(*) from pg_inherits where inhrelid = to_regclass('scylla.finished_old')";
    s.run(
        "create table scylla.finished_old partition of scylla.finished
             for values from ('2001-01-01 00:00+00') to ('2001-01-02 00:00+00');
         create index on scylla.finished_old (id);
         insert into scylla.finished select (jsonb_populate_record(null::scylla.finished, jsonb_build_object(
             'id', gen_random_uuid(), 'queue', 'q', 'action', '', 'priority', 0, 'post_result', false,
             'created', '2001-01-01 00:00+00', 'updated', '2001-01-01 12:00+00', 'tries', 1, 'num_failures', 0,
             'progress', 1, 'status', 'completed', 'spec', '{}', 'errors', '[]', 'history', '[]'))).*",
    );
    let mut reader = database.connect();
    reader.run("begin; select count(*) from scylla.finished_old");
    server.configure("scylla.retention", "9 d");
    let until = Instant::now() + seconds(2);
    while Instant::now() < until {
        s.submit("q");
        let lease = s.own_one("q");
        // What settles a task would wait behind it.
        let queues = "select count(*) from pg_locks where not granted";
        assert_eq!(s.count(queues), 0, "no process queues for a lock");
        s.complete(&lease);
    }
    assert_eq!(s.count(there), 1, "the reader delays its drop");
    reader.run("commit");
    server.configure("scylla.retention", "8 d");
    eventually(seconds(5), "the partition is dropped", || (s.count(there) == 0).then_some(()));
    let log = server.log();
    let failed: Vec<&str> = log.lines().filter(|it| it.contains("scylla could not")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let days = "select string_agg(inhrelid::regclass::text, ' ' order by inhrelid) from pg_inherits where inhparent = 'scylla.finished'::regclass";
    let days = s.text(days);
    assert_eq!(
        days.split(' ').count(),
        6,
        "yesterday to three days ahead, and the default one: {days}"
    );
}

/// I10: a locked row does not prevent the deletion of others.
#[test]
fn locked_rows_are_skipped() {
    let server = Server::start(&["scylla.retention = '1 h'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    settle(&mut s, "held", 1, "2 hours");
    let mut holder = database.connect();
    holder.run("begin; select from scylla.finished where queue = 'held' for update");
    settle(&mut s, "past", 3_000, "2 hours");
    wait_until_gone(&mut s, "past");
    if count(&mut s, "held") == 1 {
        holder.run("commit");
    }
    wait_until_gone(&mut s, "held");
}

/// I6: with any number of rows, a tick reads few blocks and deletes 1,000 rows a transaction.
#[test]
fn a_tick_is_short_however_many_rows_there_are() {
    let server = Server::start(&["scylla.retention = '10 min'", "autovacuum = off"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    settle(&mut s, "young", 200_000, "0 s");
    let partition = s.text("select distinct tableoid::regclass::text from scylla.finished");
    let blocks = s.count(&format!("select pg_relation_size('{partition}') / 8192"));
    assert!(blocks > 3_000, "{blocks} blocks");

    // The statement that the scheduler runs.
    let text = include_str!("../../../sql/queries/retention/delete_expired.sql")
        .replace("scylla.finished_default", &partition);
    s.run(&format!(
        "prepare past (timestamptz, text[], timestamptz[], bigint, bigint, bigint) as {text}"
    ));
    let plan = "explain (analyze, buffers, format json) execute past (now() + interval '1 hour', '{}', '{}', $1, $1 + 512, 1000)";
    let mut explained = |from: i64| -> (i64, i64) {
        let text = plan.replace("$1", &from.to_string());
        let plan: Value = s.value(&text, &[]);
        let top = &plan[0]["Plan"];
        let number = |name: &str| top[name].as_i64().unwrap();
        let past = top["Plans"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["Subplan Name"] == "CTE past")
            .unwrap();
        (
            number("Shared Hit Blocks") + number("Shared Read Blocks"),
            // A fraction from PostgreSQL 18 on.
            past["Actual Rows"].as_f64().unwrap() as i64,
        )
    };
    let (looked_at, deleted) = explained(0);
    assert_eq!(deleted, 1_000);
    assert!(looked_at < 5_000, "{looked_at} blocks for 1,000 rows");
    let (looked_at, deleted) = explained(blocks + 5);
    assert_eq!((looked_at, deleted), (0, 0));

    // The partition of today is read at any time of the day but its first ten minutes.
    // The blocks that the scheduler reads while no row is past the retention, in ticks of a second.
    let read = "select heap_blks_hit + heap_blks_read from pg_statio_user_tables where relid = $1::text::regclass";
    let mut watch = database.connect();
    let mut watch_end = database.connect();
    let mut reads = || watch.value::<i64>(read, &[&partition]);
    // What this session has read is reported when it ends, before its process is seen to be gone.
    let pid: i32 = s.value("select pg_backend_pid()", &[]);
    drop(s);
    let gone = "select not exists (select from pg_stat_activity where pid = $1)";
    eventually(seconds(30), "the session has ended", || {
        watch_end.value::<bool>(gone, &[&pid]).then_some(())
    });
    // On a busy machine a report may have the reads of many ticks before.
    eventually(seconds(60), "ticks read few blocks", || {
        let (begun, before) = (Instant::now(), reads());
        sleep(seconds(6));
        let read = reads() - before;
        let ticks = begun.elapsed().as_secs() as i64 + 3;
        println!("{read} blocks in {ticks} ticks, of {blocks}");
        (1..=ticks * 600).contains(&read).then_some(())
    });
}

/// A partition for the day that was so many days ago, in UTC.
fn make_partition(s: &mut Session, name: &str, days_ago: i32) {
    let sql = format!(
        "do $$ declare day timestamp := date_trunc('day', now() at time zone 'UTC') - interval '{days_ago} d';
         begin
             execute format('create table scylla.{name} partition of scylla.finished for values from (%L) to (%L)',
                 day at time zone 'UTC', (day + interval '1 d') at time zone 'UTC');
         end $$;
         create index on scylla.{name} (id)"
    );
    s.run(&sql);
}

/// B60: a queue's own retention, shorter or longer than the server's, by the row or by the day.
#[test]
fn queues_keep_settled_tasks_for_their_own_time() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("other");
    let settled = s.own_one("other");
    s.complete(&settled);
    s.run("select scylla.configure_queue('soon', retention => '1 s')");
    s.run("select scylla.configure_queue('days', retention => '5 d')");
    s.run("select scylla.configure_queue('long', retention => '100 d')");
    make_partition(&mut s, "finished_week", 7);
    make_partition(&mut s, "finished_month", 30);
    let queues = ["soon", "days", "long", "other"];
    let today = s.text("select 'finished_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')");
    for queue in queues {
        settle(&mut s, queue, 700, "2 s");
        settle(&mut s, queue, 700, "7 d");
        settle(&mut s, queue, 700, "30 d");
    }
    let mut left = |partition: &str| -> Vec<i64> {
        let sql = format!("select count(*) from scylla.{partition} where queue = $1");
        queues.iter().map(|queue| s.value(&sql, &[queue])).collect()
    };
    eventually(seconds(15), "each queue keeps its own", || {
        let found = [today.as_str(), "finished_week", "finished_month"].map(&mut left);
        let expected = [vec![0, 700, 700, 701], vec![0, 0, 700, 700], vec![0, 0, 700, 0]];
        (found == expected).then_some(())
    });
    sleep(seconds(2));
    assert_eq!(left("finished_month"), [0, 0, 700, 0], "the longest retention keeps the partition");

    // Once no queue keeps its tasks for so long, the partition goes as a whole.
    let mut s = database.connect();
    s.run("select scylla.reset_queue('long', 'retention')");
    let there = "select count(*) from pg_inherits
                 where inhrelid = any (array[to_regclass('scylla.finished_week'), to_regclass('scylla.finished_month')])";
    eventually(seconds(15), "it is dropped", || (s.count(there) == 1).then_some(()));
    server.configure("scylla.retention", "6 d");
    eventually(seconds(15), "both are", || (s.count(there) == 0).then_some(()));
    assert_eq!(count(&mut s, "long"), 700, "today's stay");
    server.assert_log_is_clean();
}

/// The indexes by worker, of whatever name.
fn worker_indexes(s: &mut Session) -> String {
    s.text(
        "select coalesce(string_agg(indexrelid::regclass::text, ', ' order by indexrelid::regclass::text), '')
         from pg_index where pg_get_indexdef(indexrelid) like '%ON scylla.finished%(owner%'",
    )
}

/// B9: what a worker has settled before today is found by an index, which is made when the day is
/// over: then no row is written for it with each task. Nothing waits for that.
#[test]
fn a_day_that_is_over_gets_an_index_by_worker() {
    let server = Server::start(&["scylla.retention = '100 d'"]);
    let database = server.database();
    let mut s = database.connect();
    assert!(s.own("w", "q", 1).is_empty(), "its scheduler has made the partitions");
    for (name, days_ago) in [("finished_a", 2), ("finished_b", 3), ("finished_c", 4)] {
        make_partition(&mut s, name, days_ago);
        settle(&mut s, name, 4_000, &format!("{days_ago} days"));
        settle(&mut s, "rare", 1, &format!("{days_ago} days"));
    }
    make_partition(&mut s, "finished_empty", 5);
    s.run("update scylla.finished set owner = case queue when 'rare' then queue else 'w' end");
    settle(&mut s, "q", 1, "0 s");
    s.run("create index by_admin on scylla.finished_b (owner, updated); analyze scylla.finished");

    let mut writer = database.connect();
    writer.run("begin; delete from scylla.finished_c where queue = 'none'");
    // A new setting makes the scheduler look at the partitions at once.
    server.configure("scylla.retention", "101 d");
    eventually(seconds(10), "the index is made", || {
        (worker_indexes(&mut s) == "scylla.by_admin, scylla.finished_a_owner").then_some(())
    });
    sleep(seconds(1));
    assert!(!server.log().contains("could not create an index"), "it did not wait for the lock");
    assert_eq!(worker_indexes(&mut s), "scylla.by_admin, scylla.finished_a_owner");
    writer.run("commit");
    server.configure("scylla.retention", "102 d");
    let all = "scylla.by_admin, scylla.finished_a_owner, scylla.finished_c_owner";
    eventually(seconds(10), "the last one is made", || {
        (worker_indexes(&mut s) == all).then_some(())
    });
    let gone = "select count(*) from pg_stat_activity where backend_type = 'scylla helper'";
    eventually(seconds(10), "the helper has ended", || (s.count(gone) == 0).then_some(()));

    s.run("begin");
    assert_eq!(s.count("select count(*) from scylla.tasks where owner = 'rare'"), 3);
    let read = s.count(
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_xact_all_tables
         where schemaname = 'scylla'",
    );
    s.run("commit");
    assert!(read < 100, "{read} rows were read");
    server.assert_log_is_clean();
}

/// A command that needs the database for itself ends the helper, too.
#[test]
fn a_database_is_dropped_while_its_helper_works() {
    let server = Server::start(&["scylla.retention = '100 d'"]);
    let database = server.database();
    let mut s = database.connect();
    assert!(s.own("w", "q", 1).is_empty(), "its scheduler has made the partitions");
    make_partition(&mut s, "finished_a", 2);
    settle(&mut s, "q", 1, "2 days");
    s.run(
        "create function slow() returns event_trigger language plpgsql as
             'begin perform pg_catalog.pg_sleep(60); end';
         create event trigger slow on ddl_command_start when tag in ('CREATE INDEX')
             execute function slow()",
    );
    server.configure("scylla.retention", "101 d");
    let works = "select count(*) from pg_stat_activity
                 where backend_type = 'scylla helper' and wait_event = 'PgSleep'";
    eventually(seconds(10), "the index is being made", || (s.count(works) == 1).then_some(()));
    drop(s);
    server.connect().run(&format!("drop database {}", database.name));
}
