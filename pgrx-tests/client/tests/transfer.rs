//! Settling writes the tables directly, without the executor.

use client::*;
use std::thread;

/// A database whose partition of today was made.
fn partitioned(database: Database) -> Database {
    let named = "select to_regclass('scylla.finished_' || to_char(now() at time zone 'utc', 'YYYYMMDD')) is not null";
    let mut s = database.connect();
    eventually(seconds(20), "the partitions are made", || {
        s.value::<bool>(named, &[]).then_some(())
    });
    database
}

/// Asserts that each index of the tables of tasks has the right entry for each row.
#[track_caller]
fn check_indexes(s: &mut Session) {
    let checked = s.check_indexes("i.indrelid::regclass::text ~ '^scylla.(task|finished)'");
    assert!(checked > 2, "{checked}");
}

fn return_all(s: &mut Session, leases: &[Lease]) -> Result<Vec<Option<String>>, postgres::Error> {
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = leases.iter().map(|it| (it.id, it.token)).unzip();
    s.try_value("select scylla.return_tasks($1, $2)", &[&ids, &tokens])
}

const SUBMISSIONS: [&str; 6] = [
    "select scylla.submit('q')",
    "select scylla.submit('q', action => 'a', priority => 7, max_tries => 3, timeout => '1 hour',
         post_result => true,
         run_at => now() - interval '1 s', retry_interval => '1 ms', retry_jitter => '1 us')",
    "select scylla.submit('q', key => 'k' || gen_random_uuid())",
    "select scylla.submit('q', '{\"n\": null}', on_failure => 'run', after => array[gen_random_uuid()])",
    // stored outside of the row, plain and compressed
    "select scylla.submit('q', (select jsonb_agg(encode(sha512(n::text::bytea), 'base64')) from generate_series(1, 3000) n))",
    "select scylla.submit('q', jsonb_build_object('s', repeat('compress me ', 20000) || sha256('a')::text))",
];

const ENDS: [&str; 5] = [
    "select scylla.return_task($1, $2)",
    "select scylla.return_task($1, $2, result => '{\"r\": [1, null]}')",
    "select scylla.return_task($1, $2, result =>
         (select jsonb_agg(encode(sha512((-n)::text::bytea), 'base64')) from generate_series(1, 3000) n))",
    "select scylla.return_task($1, $2, 'aborted', error => '{\"code\": \"e\", \"args\": [\"1\"]}')",
    "select scylla.cancel($1)::text where $2::uuid is not null",
];

/// A settled task has what the live one had, but for what its end changes.
#[test]
fn settled_tasks_have_what_they_had() {
    let database = partitioned(database());
    let mut s = database.connect();
    let error = json!({"code": "e", "args": {}, "description": ""});
    let (mut expected, mut count) = (Vec::new(), 0);
    for (end, had_retry) in ENDS.iter().flat_map(|end| [(end, false), (end, true)]) {
        for submission in SUBMISSIONS {
            let what = format!("{submission} {end} {had_retry}");
            let id: Uuid = s.value(submission, &[]);
            let take = |s: &mut Session| {
                eventually(seconds(5), "the task is ready", || s.try_own_task(id).ok())
            };
            let mut lease = take(&mut s);
            if had_retry {
                s.return_task(&lease, "retry").unwrap();
                lease = take(&mut s);
                s.extend_with(&lease, "progress => 0.25");
            }
            let live: Value =
                s.value("select to_jsonb(t) from scylla.task t where id = $1", &[&id]);
            let status: String = s.value(end, &[&lease.id, &lease.token]);
            let (mut errors, is_cancel) = (live["errors"].clone(), status == "true");
            if status == "aborted" {
                errors.as_array_mut().unwrap().push(error.clone());
            }
            let progress = match (status.as_str(), had_retry) {
                ("completed", _) => json!(1),
                (_, true) => json!(0.25),
                (_, false) => json!(0),
            };
            let status = if is_cancel { "cancelled".to_owned() } else { status };
            let ended = json!({"status": status, "errors": errors, "owner": "w", "progress": progress,
                "tries": live["tries"].as_i64().unwrap() + 1, "resubmitted_as": null});
            expected.push((id, live, ended, what));
        }
        let id = s.submit("q");
        let live: Value = s.value("select to_jsonb(t) from scylla.task t where id = $1", &[&id]);
        assert!(s.cancel(id));
        let ended = json!({"status": "cancelled", "owner": null, "owned_at": null, "tries": 0,
            "progress": 0, "result": null, "resubmitted_as": null});
        expected.push((id, live, ended, "never owned".into()));
    }
    // values that a live task stored outside of its row are deleted
    s.run("vacuum scylla.task");
    check_indexes(&mut s);
    let settled = "select to_jsonb(f) || jsonb_build_object('partition', tableoid::regclass,
            'on time', updated between now() - interval '1 minute' and clock_timestamp(),
            'owned', owned_at between created and updated)
        from scylla.finished f where id = $1";
    let today =
        s.text("select 'scylla.finished_' || to_char(now() at time zone 'utc', 'YYYYMMDD')");
    for (id, live, ended, what) in expected {
        let row: Value = s.value(settled, &[&id]);
        let ended = ended.as_object().unwrap();
        for (name, value) in ended {
            assert_eq!(&row[name], value, "{name} {what}");
        }
        let changed = |name: &str| name == "updated" || ended.contains_key(name);
        for (name, value) in live.as_object().unwrap().iter().filter(|it| !changed(it.0)) {
            if let Some(kept) = row.get(name) {
                assert_eq!(kept, value, "{name} {what}");
                count += 1;
            }
        }
        assert_eq!((&row["partition"], &row["on time"]), (&json!(today), &json!(true)), "{what}");
        assert!(ended["owner"].is_null() || row["owned"] == json!(true), "{what}");
        let result = match () {
            _ if what.contains("{\"r\"") => json!({"r": [1, null]}),
            _ if what.contains("sha512((-n)") => {
                assert_eq!(row["result"].as_array().map(Vec::len), Some(3_000), "{what}");
                continue;
            }
            _ => json!(null),
        };
        assert_eq!(row["result"], result, "{what}");
    }
    assert!(count > 20 * ENDS.len() * 2 * (SUBMISSIONS.len() + 1), "{count} columns were compared");
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
    Server::shared().assert_log_is_clean();
}

/// A change of the tables: how to make it, what must be true of a task that completes, and how to
/// undo the change.
const CHANGES: [(&str, &str, &str); 11] = [
    (
        "alter table scylla.finished add column note text default 'noted'",
        "(select note = 'noted' from scylla.finished where id = $1)",
        "alter table scylla.finished drop column note",
    ),
    // the column dropped by the previous change has no effect
    (
        "select 1",
        "(select tries = 1 and spec = '{}' and history = '[]' from scylla.finished where id = $1)",
        "select 1",
    ),
    (
        "create index partly on scylla.finished (queue) where status = 'completed'",
        "(select count(*) = 1 from scylla.finished where queue = 'q' and status = 'completed' and id = $1)",
        "drop index scylla.partly",
    ),
    (
        "create function is_completed(text) returns boolean language plpgsql immutable as
             'begin return $1 = ''completed''; end';
         create index chosen on scylla.finished (queue) where is_completed(status)",
        "(select count(*) = 1 from scylla.finished where queue = 'q' and is_completed(status) and id = $1)",
        "drop index scylla.chosen",
    ),
    (
        "create index expressed on scylla.finished ((spec ->> 'n'))",
        "(select count(*) = 1 from scylla.finished where spec ->> 'n' is null and id = $1)",
        "drop index scylla.expressed",
    ),
    (
        "create index inverted on scylla.finished using gin (spec)",
        "true",
        "drop index scylla.inverted",
    ),
    ("create index more on scylla.finished (queue, updated desc) include (status)", "true", "select 1"),
    ("create unique index one on scylla.finished (id, updated)", "true", "select 1"),
    ("alter table scylla.task add column extra integer default 5", "true", "alter table scylla.task drop column extra"),
    (
        "do $$ declare p regclass; begin
             for p in select inhrelid from pg_inherits where inhparent = 'scylla.finished'::regclass
             loop
                 if p::text <> 'scylla.finished_default' then execute 'alter table scylla.finished detach partition ' || p; end if;
             end loop; end $$",
        "exists (select from scylla.finished_default where id = $1)",
        "delete from scylla.finished_default",
    ),
    // its columns have another order than its parent's
    (
        "create table reversed (history jsonb not null, errors jsonb not null, result jsonb, spec jsonb not null,
             resubmitted_from uuid, after uuid[], command text, database text collate \"C\",
             role scylla.role, schedule bigint, group_key text collate \"C\", owner text collate \"C\",
             key text collate \"C\", gone integer, status text not null collate \"C\",
             owned_at timestamptz, progress double precision not null, num_failures integer not null,
             tries integer not null, retry_jitter interval, retry_interval interval, max_tries integer,
             timeout interval, run_at timestamptz, updated timestamptz not null, created timestamptz not null, post_result boolean not null,
             priority bigint not null, action text not null collate \"C\", queue text not null collate \"C\",
             id uuid not null, meta jsonb, database_oid scylla.database, resubmitted_as uuid,
             constraint finished_role check (command is null or scylla._may_act_as(role)));
         alter table reversed drop column gone;
         alter table scylla.finished attach partition reversed
             for values from (minvalue) to (maxvalue)",
        "(select owner = 'w' and action = 'act' and tries = 1 and status = 'completed' and progress = 1
             from reversed where id = $1)",
        "select 1",
    ),
];

#[test]
fn tasks_settle_in_changed_tables() {
    let database = partitioned(database());
    let mut admin = database.connect();
    // a session that has settled a task before must notice each change
    let mut old = database.connect();
    old.submit_with("old", "action => 'act'");
    let first = old.own_one("old");
    old.complete(&first);
    for (change, truth, back) in CHANGES {
        admin.run(change);
        for s in [&mut database.connect(), &mut old] {
            let id = s.submit_with("q", "action => 'act'");
            let lease = s.own_one("q");
            s.complete(&lease);
            assert!(
                s.value::<bool>(&format!("select {truth} and $1::uuid is not null"), &[&id]),
                "{change}"
            );
            assert_eq!(s.status(id), "completed", "{change}");
        }
        admin.run(back);
    }
    check_indexes(&mut admin);
    assert_eq!(admin.count("select count(*) from scylla.task"), 0);
    Server::shared().assert_log_is_clean();
}

#[test]
fn refused_row_leaves_the_task_as_it_was() {
    for (change, code, back) in [
        (
            "alter table scylla.finished add constraint never check (false) not valid",
            "55000",
            "alter table scylla.finished drop constraint never",
        ),
        (
            "alter table scylla.finished alter key set not null",
            "55000",
            "alter table scylla.finished alter key drop not null",
        ),
        (
            "alter table scylla.finished add column twice integer generated always as (tries * 2) stored",
            "55000",
            "alter table scylla.finished drop column twice",
        ),
        (
            "alter table scylla.task replica identity nothing;
             create publication p for table scylla.task",
            "55000",
            "drop publication p; alter table scylla.task replica identity default",
        ),
    ] {
        let database = partitioned(database());
        let mut s = database.connect();
        s.submit("q");
        let lease = s.own_one("q");
        s.run(change);
        assert_eq!(
            failure(s.return_task(&lease, "completed"), change).code().code(),
            code,
            "{change}"
        );
        s.run(back);
        assert!(s.extend(&lease), "{change}");
        s.complete(&lease);
    }
    Server::shared().assert_log_is_clean();
}

/// Waits until a session waits for a lock.
#[track_caller]
fn waits(s: &mut Session, pid: i32) {
    let sql = "select coalesce(bool_or(wait_event_type = 'Lock'), false) from pg_stat_activity where pid = $1";
    eventually(seconds(10), "it waits", || s.value::<bool>(sql, &[&pid]).then_some(()));
}

/// Another session changes the row of the second of three tasks while they are returned. Returns
/// the answer and that row's content.
fn return_beside(
    database: &Database,
    isolation: &str,
    change: &str,
    end: &str,
) -> Result<Vec<Option<String>>, String> {
    let (mut s, mut other, mut watch) =
        (database.connect(), database.connect(), database.connect());
    s.submit_many("q", 3);
    let leases = s.own("w", "q", 3);
    let mut sorted: Vec<Uuid> = leases.iter().map(|it| it.id).collect();
    sorted.sort();
    other.run(&format!("begin; {}", change.replace("$1", &format!("'{}'", sorted[1]))));
    let pid = s.pid;
    let returning = {
        let begin =
            format!("begin isolation level {isolation}; select count(*) from scylla.finished");
        thread::spawn(move || {
            s.run(&begin);
            let answer = return_all(&mut s, &leases);
            s.run(if answer.is_ok() { "commit" } else { "rollback" });
            answer.map_err(|error| code(&error))
        })
    };
    waits(&mut watch, pid);
    other.run(end);
    let answer = returning.join().expect("the other thread");
    let left = watch.count("select count(*) from scylla.task");
    assert_eq!(left, if answer.is_ok() { 0 } else { 3 });
    if left > 0 {
        watch.run("select scylla.cancel_tasks(array(select id from scylla.task))");
    }
    answer
}

#[test]
fn return_waits_for_the_holder_of_a_row_lock() {
    let database = partitioned(database());
    let mut s = database.connect();
    let touch = "update scylla.task set num_failures = 77 where id = $1";
    let lock = "select from scylla.task where id = $1 for update";
    let delete = "delete from scylla.task where id = $1";
    let all = || Ok(vec![Some("completed".to_owned()); 3]);
    let touched = "select count(*) from scylla.finished where num_failures = 77";
    for isolation in ["read committed", "repeatable read", "serializable"] {
        for change in [touch, lock, delete] {
            assert_eq!(return_beside(&database, isolation, change, "rollback"), all());
        }
        assert_eq!(return_beside(&database, isolation, lock, "commit"), all());
        let before = s.count(touched);
        let touch = return_beside(&database, isolation, touch, "commit");
        if isolation == "read committed" {
            assert_eq!(touch, all());
            assert_eq!(s.count(touched), before + 1, "the row as it is now is moved");
            let some = vec![Some("completed".to_owned()), None, Some("completed".to_owned())];
            let mut answer = return_beside(&database, isolation, delete, "commit").unwrap();
            answer.sort();
            assert_eq!(answer.iter().filter(|it| it.is_none()).count(), 1, "{answer:?} {some:?}");
        } else {
            assert_eq!(touch, Err("40001".to_owned()), "{isolation}");
        }
    }
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// I2: a batch that rolls back leaves the leases as they were.
#[test]
fn rolled_back_batch_leaves_its_leases() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.submit_many("q", 1_000);
    let leases = s.own("w", "q", 1_000);
    s.run("begin");
    s.run("savepoint a");
    assert_eq!(return_all(&mut s, &leases[..700]).unwrap().len(), 700);
    assert_eq!(s.count("select count(*) from scylla.finished"), 700);
    s.run("rollback to a");
    assert_eq!(s.count("select count(*) from scylla.finished"), 0);
    return_all(&mut s, &leases[300..400]).unwrap();
    s.run("commit");
    assert_eq!(s.count("select count(*) from scylla.finished"), 100);
    s.run("begin");
    return_all(&mut s, &leases[..300]).unwrap();
    s.run("rollback");
    assert!(leases[..300].iter().chain(&leases[400..]).all(|lease| s.extend(lease)));
    // the rest, among invalid tokens and absent tasks
    let mut rest = leases.clone();
    rest.iter_mut().step_by(10).for_each(|lease| lease.token = Uuid::new_v4());
    let answers = return_all(&mut s, &rest).unwrap();
    assert_eq!(answers.iter().flatten().count(), 810);
    assert_eq!(s.count("select count(*) from scylla.finished"), 910);
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// One statement can own and return tasks, and query them.
#[test]
fn one_statement_may_own_and_return() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.submit_many("q", 600);
    let returned = s.count(
        "with owned as materialized (select id, token from scylla.own_tasks('w', 'q', 600)),
              returned as materialized (select scylla.return_task(id, token) from owned)
         select count(*) from returned",
    );
    assert_eq!(returned, 600);
    assert_eq!(s.count("select count(*) from scylla.finished"), 600);
    let one: Vec<Option<String>> = s.value(
        "with new as materialized (select scylla.submit('q2') as id),
              cancelled as materialized (select id, scylla.cancel(id) as done from new)
         select array[done::text, (select scylla.cancel(id)::text from cancelled)] from cancelled",
        &[],
    );
    assert_eq!(one, [Some("true".to_owned()), Some("false".to_owned())]);
    Server::shared().assert_log_is_clean();
}

/// Tasks that settle in one call as different things are moved together; where some are to be tried
/// again, too, each kind is.
#[test]
fn outcomes_that_settle_are_moved_together() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.submit_many("q", 300);
    let outcomes = |s: &mut Session, kinds: &str, errors: i32| -> Vec<Option<String>> {
        let leases = s.own("w", "q", 300);
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            leases.iter().map(|it| (it.id, it.token)).unzip();
        let sql = format!(
            "select scylla.return_many($1, $2, array_agg(o order by n), errors => array_agg(
                 case when o in ('aborted', 'retry') then jsonb_build_object('code', n::text, 'description',
                     repeat('x', $3)) end order by n))
             from generate_series(1, {}) n, lateral (select ('{kinds}'::text[])[n % 3 + 1]) k (o)",
            leases.len()
        );
        s.value(&sql, &[&ids, &tokens, &errors])
    };
    let answers = outcomes(&mut s, "{completed,aborted,retry}", 10);
    for (status, many) in [("completed", 100), ("aborted", 100), ("ready", 100)] {
        assert_eq!(answers.iter().flatten().filter(|it| *it == status).count(), many, "{status}");
    }
    // Those that were tried again have an error already, and get another one, large enough for its
    // own table.
    eventually(seconds(20), "they are ready", || {
        (s.count("select count(*) from scylla.task where ready") == 100).then_some(())
    });
    let answers = outcomes(&mut s, "{completed,aborted,aborted}", 20_000);
    assert_eq!(answers.iter().flatten().count(), 100);
    let ended = "select array_agg(format('%s %s', status, n) order by status, n) from (
        select distinct status, jsonb_array_length(errors) as n from scylla.finished) x";
    assert_eq!(
        s.value::<Vec<String>>(ended, &[]),
        ["aborted 1", "aborted 2", "completed 0", "completed 1"]
    );
    let kept = "select count(*) from scylla.finished where jsonb_array_length(errors) = 2
        and length(errors->1->>'description') = 20000 and errors->0->>'code' is not null";
    assert_eq!(
        s.count(kept),
        s.count("select count(*) from scylla.finished where jsonb_array_length(errors) = 2")
    );
    Server::shared().assert_log_is_clean();
}

#[test]
fn a_hundred_thousand_at_once() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.submit_many("q", 100_000);
    s.submit_many("c", 10_000);
    let counted = "select (select n_tup_del from pg_stat_user_tables where relid = 'scylla.task'::regclass),
                          (select sum(n_tup_ins)::bigint from pg_stat_user_tables where relname like 'finished%')";
    let counts = |s: &mut Session| {
        s.run("select pg_stat_force_next_flush()");
        let row = s.query_one(counted, &[]).unwrap();
        [row.get::<_, i64>(0), row.get::<_, i64>(1)]
    };
    let before = counts(&mut s);
    let leases = s.own("w", "q", 100_000);
    let answers = return_all(&mut s, &leases).unwrap();
    assert_eq!(answers.iter().flatten().filter(|it| *it == "completed").count(), 100_000);
    let cancelled = "select count(*) from unnest(scylla.cancel_tasks(array(select id from scylla.task))) c where c";
    assert_eq!(s.count(cancelled), 10_000);
    let after = counts(&mut s);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [110_000; 2]);
    assert_eq!(s.count("select count(distinct id) from scylla.finished"), 110_000);
    let held = s.count(
        "select sum(total_bytes)::bigint from pg_backend_memory_contexts where name like 'scylla%'
                        or name = 'MessageContext' or name = 'ExprContext'",
    );
    assert!(held < 1_000_000, "{held} bytes are held");
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// A partial index has the rows of its predicate, and no others: a query does not check it again.
#[test]
fn partial_indexes_have_the_rows_of_their_predicates() {
    let database = partitioned(database());
    let mut s = database.connect();
    let ids = s.submit_many("q", 4);
    assert!(s.cancel(ids[0]));
    let leases = s.own("w", "q", 3);
    return_all(&mut s, &leases).expect("valid leases");
    s.run("vacuum analyze scylla.finished");
    s.run("set enable_seqscan = off; set enable_bitmapscan = off");
    for (what, number) in [("status <> 'completed'", 1), ("key is not null", 0)] {
        let query = format!("select count(*) from scylla.finished where {what}");
        let plan = s.value::<Value>(&format!("explain (format json) {query}"), &[]).to_string();
        assert!(plan.contains("Index Only Scan") && !plan.contains("Filter"), "{plan}");
        assert_eq!(s.count(&query), number, "{what}");
    }
    check_indexes(&mut s);
}

/// A search for a row whose versions are many, in and out of the order of the index, beside dead
/// entries, neither misses the row nor returns a dead one.
#[test]
fn rows_are_found_among_the_dead() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.own("w", "the scheduler has been here", 1);
    for order in ["id", "md5(id::text)"] {
        s.run(
            "insert into scylla.task
                 (id, queue, action, priority, ready, post_result, created, updated, spec)
             select gen_random_uuid(), 'q', '', 0, true, false, now(), now(), '{}'
             from generate_series(1, 1500)",
        );
        for _ in 0..3 {
            s.run("update scylla.task set priority = priority + 1");
        }
        s.run(&format!(
            "with o as (select id, row_number() over (order by {order}) as n from scylla.task)
             update scylla.task t set priority = o.n from o where o.id = t.id"
        ));
        let some = "select count(*) from unnest(scylla.cancel_tasks(array(
                        select id from scylla.task where mod(priority, 3) = 0))) c where c";
        assert_eq!(s.count(some), 500);
        s.run("select scylla.refresh()");
        let mut leases = Vec::new();
        eventually(seconds(10), "the board knows them", || {
            leases = s.own("w", "q", 1_500);
            (!leases.is_empty()).then_some(())
        });
        let priorities: Vec<i64> = leases.iter().map(|lease| lease.priority).collect();
        let expected: Vec<i64> = (1..=1_500).rev().filter(|n| n % 3 != 0).collect();
        assert_eq!(priorities, expected, "{order}");
        assert_eq!(return_all(&mut s, &leases).unwrap().iter().flatten().count(), 1_000);
        assert_eq!(s.count("select count(*) from scylla.task"), 0);
    }
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// I9: a batch that waits for a row lock can be interrupted.
#[test]
fn batch_that_waits_is_interrupted() {
    let database = partitioned(database());
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit_many("q", 1_000);
    let leases = s.own("w", "q", 1_000);
    let mut sorted: Vec<Uuid> = leases.iter().map(|it| it.id).collect();
    sorted.sort();
    other.run(&format!("begin; select from scylla.task where id = '{}' for update", sorted[600]));
    s.run("set statement_timeout = '200 ms'");
    let error = return_all(&mut s, &leases).expect_err("it waits");
    assert_eq!(code(&error), "57014");
    other.run("rollback");
    s.run("reset statement_timeout");
    assert_eq!(s.count("select count(*) from scylla.finished"), 0);
    assert_eq!(return_all(&mut s, &leases).unwrap().iter().flatten().count(), 1_000);
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// The functions use the rights of the tables' owner, not those of the caller.
#[test]
fn caller_needs_no_right_to_the_tables() {
    let database = partitioned(database());
    let mut s = database.connect();
    s.run("create role transferrer");
    s.run("select scylla.grant('q', 'transferrer', '{submit,work}')");
    s.run("set role transferrer");
    s.submit("q");
    let lease = s.own_one("q");
    s.complete(&lease);
    assert_eq!(s.refused("select from scylla.finished"), "42501");
    s.run("reset role; drop role transferrer");
}

#[test]
fn logical_decoding_sees_both_sides() {
    let server = Server::start(&["wal_level = logical"]);
    let database = partitioned(server.database());
    let mut s = database.connect();
    s.run("select pg_create_logical_replication_slot('s', 'test_decoding')");
    s.submit_many("q", 3);
    let big: Uuid = s.value(SUBMISSIONS[4], &[]);
    let leases = s.own("w", "q", 4);
    return_all(&mut s, &leases).unwrap();
    let rows = s
        .query(
            "select data from pg_logical_slot_get_changes('s', null, null, 'include-xids', '0')",
            &[],
        )
        .unwrap();
    let changes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    for id in leases.iter().map(|lease| lease.id) {
        let of = |what: &str| {
            let is = |it: &&String| it.starts_with(what) && it.contains(&format!("'{id}'"));
            changes.iter().filter(is).count()
        };
        assert_eq!(of("table scylla.task: DELETE: id[uuid]:"), 1, "{changes:#?}");
        assert_eq!(of("table scylla.finished_2"), 1, "{changes:#?}");
    }
    let insert =
        changes.iter().find(|it| it.contains("finished_2") && it.contains(&big.to_string()));
    assert!(insert.unwrap().len() > 200_000, "with its whole spec");
    s.run("select pg_drop_replication_slot('s')");
    server.assert_log_is_clean();
}

/// Tasks settle while an administrator changes the tables.
#[test]
fn tables_change_while_tasks_settle() {
    let server = Server::start(&[]);
    let database = partitioned(server.database());
    let mut s = database.connect();
    s.submit_many("q", 20_000);
    let workers: Vec<_> = (0..3)
        .map(|n| {
            let mut s = database.connect();
            thread::spawn(move || {
                let mut done = 0;
                loop {
                    let leases = s.own("w", "q", if n == 0 { 1 } else { 50 });
                    if leases.is_empty() {
                        return done;
                    }
                    done += return_all(&mut s, &leases).unwrap().iter().flatten().count();
                }
            })
        })
        .collect();
    let today =
        s.text("select 'scylla.finished_' || to_char(now() at time zone 'utc', 'YYYYMMDD')");
    let bounds = s.text(&format!(
        "select pg_get_expr(relpartbound, oid) from pg_class where oid = '{today}'::regclass"
    ));
    while !workers.iter().all(|it| it.is_finished()) {
        s.run(&format!("create index extra on {today} (created)"));
        s.run("alter table scylla.finished add column note text");
        s.run("alter table scylla.finished drop column note");
        s.run(&format!("reindex table {today}"));
        s.run(&format!(
            "begin; alter table scylla.finished detach partition {today};
                        alter table scylla.finished attach partition {today} {bounds}; commit"
        ));
        s.run("drop index concurrently scylla.extra");
        s.run(&format!("create index concurrently extra on {today} (created)"));
        s.run("drop index scylla.extra");
        s.run(&format!("vacuum {today}"));
    }
    let done: usize = workers.into_iter().map(|it| it.join().expect("no error")).sum();
    assert_eq!(done, 20_000);
    assert_eq!(s.count("select count(distinct id) from scylla.finished"), 20_000);
    check_indexes(&mut s);
    server.assert_log_is_clean();
}
