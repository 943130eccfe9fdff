//! What a command can be, and what becomes of its task.

use crate::{first_code, run, running, settled, submit, until_running};
use client::*;

/// B120: a command runs as psql would have it run, and its last tag is the result.
#[test]
fn the_last_command_tag_and_the_rows_are_the_result() {
    let database = database();
    let mut s = database.connect();
    for (command, tag, rows) in [
        ("select generate_series(1, 3)", "SELECT 3", 3),
        ("create table t (n int)", "CREATE TABLE", 0),
        ("insert into t select generate_series(1, 5)", "INSERT 0 5", 5),
        ("update t set n = n + 1 where n > 3", "UPDATE 2", 2),
        ("vacuum t", "VACUUM", 0),
        ("delete from t; insert into t values (7); select n from t", "SELECT 1", 1),
        ("begin; insert into t values (8); commit", "COMMIT", 0),
        ("insert into t values (9); commit; rollback", "ROLLBACK", 0),
        ("begin; delete from t; rollback", "ROLLBACK", 0),
        ("create index concurrently on t (n)", "CREATE INDEX", 0),
        ("copy t to '/dev/null'", "COPY 3", 3),
        ("do $$ begin perform from t; end $$", "DO", 0),
        ("-- nothing", "", 0),
    ] {
        let entry = run(&mut s, command, "");
        assert_eq!(entry["status"], "completed", "{command}: {entry}");
        assert_eq!(entry["result"], json!({"command_tag": tag, "rows": rows}), "{command}");
        assert_eq!((&entry["queue"], &entry["spec"]), (&json!("sql"), &json!({})));
    }
    assert_eq!(s.count("select sum(n) from t"), 24);
}

/// B120: several statements are one transaction, unless they say otherwise.
#[test]
fn several_statements_are_one_transaction_and_a_procedure_may_commit() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create table t (n int);
         create procedure p() language plpgsql as $$
         begin
           insert into t values (1); commit;
           insert into t values (2); commit;
           raise 'no' using errcode = 'U0001', detail = 'more', hint = 'less';
         end $$",
    );
    let entry = run(&mut s, "insert into t values (9); select 1 / 0", "");
    assert_eq!((first_code(&entry), s.count("select count(*) from t")), ("22012", 0));
    let entry = run(&mut s, "insert into t values (3); commit; select 1 / 0", "");
    assert_eq!((first_code(&entry), s.count("select count(*) from t")), ("22012", 1));
    let entry = run(&mut s, "call p()", "");
    assert_eq!((first_code(&entry), s.count("select count(*) from t")), ("U0001", 3));
    let error = &entry["errors"][0];
    assert_eq!(error["args"], json!({"message": "no", "detail": "more", "hint": "less"}));
    assert_eq!((&error["description"], &entry["tries"]), (&json!("no"), &json!(1)));
    assert_eq!(entry["errors"][1]["code"], "tries_exhausted");
}

/// B122: a command that fails is an aborted task, and the next command runs.
#[test]
fn what_cannot_run_is_an_error_and_the_next_command_runs() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create table t (n int)");
    let long = format!("do $$ begin raise '{}'; end $$", "é".repeat(20_000));
    for (command, code) in [
        ("this is no sql", "42601"),
        ("select 'open", "42601"),
        ("copy t to stdout", "0A000"),
        ("copy t from stdin", "0A000"),
        ("select 1; copy t from stdin", "0A000"),
        ("listen c", "0A000"),
        ("begin; insert into t values (1)", "25001"),
        ("insert into t values (1); begin", "25001"),
        ("begin; select 1/0; select 2", "22012"),
        ("vacuum t; select 1", "25001"),
        ("set statement_timeout = 50; select pg_sleep(60)", "57014"),
        ("select pg_cancel_backend(pg_backend_pid()), pg_sleep(60)", "57014"),
        ("select pg_terminate_backend(pg_backend_pid()), pg_sleep(60)", "outcome_unknown"),
        ("select repeat('x', 1 << 29) || repeat('x', 1 << 29)", "XX000"),
        (long.as_str(), "P0001"),
    ] {
        let entry = run(&mut s, command, "");
        assert_eq!(entry["status"], "aborted", "{command}");
        assert_eq!(first_code(&entry), code, "{command}: {entry}");
        let entry = run(&mut s, "select 1", "");
        assert_eq!(entry["status"], "completed", "after {command}");
    }
    assert_eq!(s.count("select count(*) from t"), 0, "what was left open is rolled back");
    let clipped: i32 = s.value(
        "select max(length(errors->0->>'description')) from scylla.finished where queue = 'sql'",
        &[],
    );
    assert!((1_000..=10_000).contains(&clipped), "{clipped} letters, of two bytes each");
    server.assert_log_is_clean();
}

/// B122: `timeout` bounds the whole command, and has no other effect.
#[test]
fn a_command_ends_when_its_time_is_up() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create procedure slow() language plpgsql as
           $$ begin loop perform pg_sleep(0.1); commit; end loop; end $$",
    );
    for command in ["select pg_sleep(60)", "call slow()", "select pg_sleep(0.2); call slow()"] {
        let entry = run(&mut s, command, ", timeout => '300 ms'");
        assert_eq!(first_code(&entry), "57014", "{command}");
    }
    // The lease does not end with the command's time: a task without one runs for any time.
    let id = submit(&mut s, "select pg_sleep(3)", ", timeout => '1 hour'");
    until_running(&mut s, "%sleep(3)%", 1);
    assert_eq!(s.entry(id)["deadline"], Value::Null);
    assert_eq!(settled(&mut s, id)["status"], "completed");
    let entry = run(&mut s, "select 1", ", timeout => '100 years'");
    assert_eq!(entry["status"], "completed");
}

/// B122: cancelling a task cancels its statement.
#[test]
fn cancelling_the_task_cancels_the_statement() {
    let database = database();
    let mut s = database.connect();
    let id = submit(&mut s, "select pg_sleep(600)", "");
    let pids = until_running(&mut s, "%sleep(600)%", 1);
    assert_eq!(s.status(id), "running");
    s.cancel(id);
    eventually(seconds(5), "it ends", || running(&mut s, "%sleep(600)%").is_empty().then_some(()));
    assert_eq!(s.status(id), "cancelled");
    // The process runs the next command.
    s.run("create table t (pid int)");
    run(&mut s, "insert into t values (pg_backend_pid())", "");
    assert_eq!(s.value::<Vec<i32>>("select array_agg(pid) from t", &[]), pids);
}

/// B122: a deleted task's statement is cancelled too.
#[test]
fn deleting_the_task_cancels_the_statement() {
    let database = database();
    let mut s = database.connect();
    let id = submit(&mut s, "select pg_sleep(601)", "");
    until_running(&mut s, "%sleep(601)%", 1);
    s.delete(&[id]);
    eventually(seconds(5), "it ends", || running(&mut s, "%sleep(601)%").is_empty().then_some(()));
}

/// B122: a command that takes all the memory there is fails alone.
#[test]
fn a_command_that_eats_memory_is_an_error() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create table t (pid int)");
    let greedy = "insert into t values (pg_backend_pid());
        select array_agg(repeat('x', 100000)) from generate_series(1, 10000)";
    run(&mut s, "insert into t values (pg_backend_pid())", "");
    let pid: i32 = s.value("select pid from t", &[]);
    spare_memory(pid, 100 << 20);
    let entry = run(&mut s, greedy, "");
    assert_eq!(first_code(&entry), "53200", "{entry}");
    run(&mut s, "insert into t values (pg_backend_pid())", "");
    let pids: Vec<i32> = s.value("select array_agg(pid) from t", &[]);
    assert_eq!(pids, [pid, pid], "the process runs the next command");
    server.assert_log_is_clean();
}

/// B122: a command whose lease is released is cancelled, and begins again only when it has ended.
#[test]
fn a_released_command_never_runs_beside_itself() {
    let database = database();
    let mut s = database.connect();
    let stubborn = "do $$ begin for n in 1..20 loop
        begin perform pg_sleep(0.1); exception when query_canceled then null; end;
        end loop; end $$ -- stubborn";
    let id = submit(&mut s, stubborn, ", max_tries => 2, retry_interval => '0'");
    until_running(&mut s, "%stubborn", 1);
    s.run("select scylla.release_worker('scylla sql worker')");
    let mut most = 0;
    let entry = eventually(seconds(20), "it completes", || {
        most = most.max(running(&mut s, "%stubborn").len());
        Some(s.entry(id)).filter(|it| it["status"] == "completed")
    });
    assert_eq!((entry["tries"].as_i64(), most), (Some(2), 1), "tries, and commands at once");
}

/// B120: the queue can be paused, also before its first task, and limited.
#[test]
fn the_queue_is_paused_and_limited_as_any_other() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.pause('sql')");
    let ids =
        [1, 2, 3].map(|n| submit(&mut s, &format!("select pg_sleep(0.{n}) -- one by one"), ""));
    sleep(milliseconds(300));
    assert_eq!(ids.map(|id| s.status(id)), ["ready"; 3]);
    s.run("select scylla.configure_queue('sql', max_running => 1), scylla.resume('sql')");
    let mut most = 0;
    eventually(seconds(20), "all complete", || {
        most = most.max(running(&mut s, "%one by one").len());
        ids.iter().all(|id| s.status(*id) == "completed").then_some(())
    });
    assert_eq!(most, 1);
}

/// B120: commands are tasks: they have keys, retries, priorities, dependencies and results.
#[test]
fn commands_are_tasks_like_any_other() {
    let database = database();
    let mut s = database.connect();
    s.run("create sequence tried; create table t (n int)");
    let once = "do $$ begin if nextval('tried') < 3 then raise 'not yet'; end if; end $$";
    let entry = run(&mut s, once, ", max_tries => 5, retry_interval => '10 ms'");
    assert_eq!((&entry["status"], &entry["tries"]), (&json!("completed"), &json!(3)));
    assert_eq!(entry["errors"].as_array().map(Vec::len), Some(2));
    assert_eq!(entry["owner"], "scylla sql worker");

    let first = submit(&mut s, "select pg_sleep(0.5); insert into t values (1)", ", key => 'k'");
    let options = format!(", after => array['{first}'::uuid], post_result => true");
    let second = submit(&mut s, "insert into t select n + 1 from t", &options);
    assert_eq!(s.refused("select scylla.run_sql('select 1', key => 'k')"), "23505");
    let same = submit(&mut s, "select 1", ", key => 'k', on_conflict => 'ignore'");
    assert_eq!(same, first);
    let call = "call scylla.wait_for_task($1::uuid, '20 s', null, null)";
    let row = s.query_one(call, &[&second]).expect("the task settles");
    assert_eq!(row.get::<_, Option<String>>(0).as_deref(), Some("completed"));
    let result: Option<Value> = row.get(1);
    assert_eq!(result, Some(json!({"command_tag": "INSERT 0 1", "rows": 1})));
    assert_eq!(s.count("select sum(n) from t"), 3);

    let failed = run(&mut s, "select 1/0", "");
    assert_eq!(failed["status"], "aborted");
    let later = submit(&mut s, "select 1", ", run_at => now() + interval '1 hour'");
    assert_eq!(s.status(later), "waiting");
}

/// B124: no other way leads into the queue, or out of it.
#[test]
fn the_queue_is_closed_to_others() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.schedule_sql('nightly', '0 3 * * *', 'select 1')");
    for call in [
        "submit('sql')",
        "submit_tasks('[{\"queue\": \"sql\"}]')",
        "submit_many('sql', array['{}'::jsonb])",
        "own_tasks('w', 'sql')",
        "delay('m', now(), 'sql', 'v')",
        "delay_messages('sql', '[]')",
        "schedule('s', '@daily', 'sql')",
        "alter_schedule('nightly', queue => 'q')",
        "alter_schedule('nightly', spec => '1')",
        "alter_schedule('nightly', action => 'a')",
        "alter_schedule('nightly', priority => 1)",
    ] {
        assert_eq!(s.refused(&format!("select * from scylla.{call}")), "55000", "{call}");
    }
    s.run("select scylla.schedule('plain', '@daily', 'q')");
    let call = "select scylla.alter_schedule('plain', queue => 'sql')";
    assert_eq!(s.refused(call), "55000");
    let id = submit(&mut s, "select 1", ", run_at => now() + interval '1 day'");
    assert_eq!(s.refused(&format!("select scylla.own_task('{id}', 'w')")), "55000");
    for call in ["run_sql('')", "run_sql(e' \\n')", "run_sql('select 1', 'absent')"] {
        assert_eq!(s.refused(&format!("select scylla.{call}")), "22023", "{call}");
    }
    assert_eq!(s.refused("select scylla.run_sql(null)"), "22004");
    assert_eq!(s.refused("select scylla.run_sql(repeat('x', 2000000))"), "54000");
    assert_eq!(s.refused("select scylla.schedule_sql('s', '@daily', '')"), "22023");
    assert_eq!(s.refused("select scylla.schedule_sql('s', 'never', 'select 1')"), "22023");
    s.run("select scylla.alter_schedule('nightly', schedule => '0 4 * * *', timeout => '1 min')");
}

/// B105: a schedule runs its command; its runs are counted.
#[test]
fn a_schedule_runs_its_command() {
    let database = database();
    let mut s = database.connect();
    s.run("create table t (at timestamptz default clock_timestamp())");
    s.run("select scylla.schedule_sql('tick', 'every 1 second', 'insert into t default values')");
    eventually(seconds(20), "it runs", || (s.count("select count(*) from t") > 2).then_some(()));
    let completed = "select completed from scylla.schedules";
    eventually(seconds(20), "it is counted", || (s.count(completed) > 1).then_some(()));
    // Replacing it replaces the command; registering it as a plain one takes the command away.
    s.run("select scylla.schedule_sql('tick', 'every 1 hour', 'select 2', 'postgres')");
    let look = "select concat_ws(' ', queue, database, command, overlap) from scylla.schedules";
    assert_eq!(s.text(look), "sql postgres select 2 skip");
    s.run("select scylla.schedule('tick', 'every 1 hour', 'q')");
    assert_eq!(s.text(look), "q allow");
    assert!(s.value::<bool>("select scylla.unschedule('tick')", &[]));
}
