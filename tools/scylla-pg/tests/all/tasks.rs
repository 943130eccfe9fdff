//! `submit`, `why`, `list`.

use super::server::*;
use std::io::Write;
use std::process::Stdio;

#[test]
fn what_is_submitted_is_as_it_was_given() {
    let d = Database::of(shared());
    let id = d.done(&[
        "submit",
        "mail",
        r#"{"n": 12345678901234567890.50}"#,
        "--action",
        "send",
        "--priority",
        "7",
        "--key",
        "k",
        "--max-tries",
        "3",
        "--retry-interval",
        "2 s",
        "--retry-jitter",
        "1 s",
        "--timeout",
        "1 min",
        "--post-result",
        "--group-key",
        "g",
        "--meta",
        r#"{"by": "me"}"#,
        "--unique-for",
        "1 day",
        "--on-conflict",
        "ignore",
    ]);
    let columns = "spec ->> 'n', action, priority, key, max_tries, group_key, meta, status";
    assert_eq!(
        d.sql(&format!("select {columns} from scylla.tasks where id = '{id}'")),
        r#"12345678901234567890.50|send|7|k|3|g|{"by": "me"}|ready"#
    );
    let again = d.done(&["submit", "mail", "--key", "k", "--on-conflict", "ignore"]);
    assert_eq!(again, id);
    let taken = d.run(&["submit", "mail", "--key", "k"]);
    assert_eq!(taken.status, 1);
    assert!(taken.err.contains("key \"k\" already exists in queue \"mail\""), "{}", taken.err);
    assert!(taken.err.contains("\nDETAIL: ") && taken.err.contains("\nHINT: "), "{}", taken.err);
    assert!(taken.out.is_empty());
}

#[test]
fn submitted_tasks_wait_for_times_and_for_tasks() {
    let d = Database::of(shared());
    let first = d.done(&["submit", "q", "--delay", "1 hour"]);
    let after = d.done(&["submit", "q", "--after", &first, "--on-failure", "run"]);
    let at = d.done(&[
        "submit",
        "q",
        "--run-at",
        "2100-01-01 00:00+0",
        "--id",
        &first.replace('0', "1"),
    ]);
    let why = d.done(&["why", &first]);
    assert!(why.starts_with("due in 59 min") || why.starts_with("due in 60 min"), "{why}");
    assert!(d.done(&["why", &after]).starts_with("waits for 1 of 1 tasks"));
    assert_eq!(at, first.replace('0', "1"));
    assert_eq!(
        d.sql(&format!("select run_at = '2100-01-01 00:00+0' from scylla.tasks where id = '{at}'")),
        "t"
    );
    let notes = d.done(&["list"]);
    assert!(notes.contains("due in 59 min 5"), "{notes}");
}

#[test]
fn a_spec_comes_from_stdin() {
    let d = Database::of(shared());
    let submit = |text: &str| {
        let mut command = d.command(&["submit", "q", "-", "--json"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, out) = submit("[1,\n2]");
    assert_eq!(status, 0);
    let id = objects(&out)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(d.sql(&format!("select spec from scylla.tasks where id = '{id}'")), "[1, 2]");
    assert_eq!(submit("[1,"), (2, String::new()));
}

#[test]
fn why_is_told_by_id_and_by_key() {
    let d = Database::of(shared());
    let id = d.done(&["submit", "q", "--key", "k"]);
    let why = "ready, and waits for a worker";
    assert_eq!(d.done(&["why", &id]), why);
    assert_eq!(d.done(&["why", "--queue", "q", "--key", "k"]), why);
    let json = d.json(&["why", &id]);
    assert_eq!(json, [serde_json::json!({ "id": id, "why": why })]);
    let missing = d.run(&["why", "01990000-0000-7000-8000-000000000000"]);
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("does not exist"), "{}", missing.err);
    assert_eq!(d.run(&["why", "-q", "q", "--key", "other"]).status, 1);
}

#[test]
fn lists_filter_and_page() {
    let d = Database::of(shared());
    d.sql(
        "select scylla.submit_many('q', array(select to_jsonb(n) from generate_series(1, 2300) n))",
    );
    d.done(&[
        "submit",
        "other",
        r#"{"to": {"who": "joe"}}"#,
        "--key",
        "k",
        "--group-key",
        "g",
        "--meta",
        r#"{"t": 1}"#,
    ]);
    // All, though a page has fewer.
    let all = d.json(&["list", "--all"]);
    assert_eq!(all.len(), 2301);
    assert_eq!(all[0]["queue"], "other");
    let mut ids: Vec<_> = all.iter().map(|task| task["id"].as_str().unwrap()).collect();
    // The page behind a task begins with the next one.
    let page = d.run(&["list", "-q", "q", "-n", "3", "--after", ids[5]]);
    assert_eq!(page.status, 0);
    let lines: Vec<_> = page.out.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines.len() == 4, "{}", page.out);
    for (line, id) in lines[1..].iter().zip(&ids[6..9]) {
        assert!(line.starts_with(id), "{line} {id}");
    }
    assert_eq!(page.err, format!("next page: --after {}\n", ids[8]));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2301);
    for filter in [
        &["--queue", "other"] as &[&str],
        &["--key", "k", "-q", "other"],
        &["--group-key", "g", "-q", "other"],
        &["-q", "other", "--spec", r#"{"to": {"who": "joe"}}"#],
        &["-q", "other", "--meta", r#"{"t": 1}"#],
        &["-q", "other", "--status", "ready", "--action", ""],
        &["-q", "other", "--created-after", "2020-01-01", "--created-before", "tomorrow"],
    ] {
        let found = d.json(&[&["list"], filter].concat());
        assert_eq!(found.len(), 1, "{filter:?}");
        assert_eq!(found[0]["key"], "k");
        assert_eq!(found[0]["spec"]["to"]["who"], "joe");
    }
    for filter in [
        &["-q", "none"] as &[&str],
        &["--status", "aborted"],
        &["--worker", "w"],
        &["-q", "other", "--meta", "{\"t\": 2}"],
    ] {
        let found = d.run(&[&["list"], filter].concat());
        assert_eq!(
            (found.status, found.out.as_str(), found.err.as_str()),
            (0, "", "no task matches\n")
        );
    }
}

/// Also what a user of the database wrote for the terminals of others.
#[test]
fn lists_show_owners_and_errors_and_nothing_else() {
    let d = Database::of(shared());
    d.sql("select scylla.submit('q', key => E'a\\x1b[2Jb')");
    d.sql("select scylla.submit('q')");
    d.sql("select scylla.return_task(id, token, 'aborted', error => '\"no such address\"') from scylla.own_tasks('w', 'q')");
    let token = d.sql("select token from scylla.own_tasks('worker-9', 'q')");
    let running = d.done(&["list", "--status", "running"]);
    assert!(running.contains("  worker-9"), "{running}");
    let aborted = d.done(&["list", "--status", "aborted", "--worker", "w"]);
    assert!(aborted.contains("  no such address"), "{aborted}");
    assert!(aborted.contains("a\u{fffd}[2Jb") && !aborted.contains('\u{1b}'), "{aborted}");
    for form in [&["list"] as &[&str], &["list", "--json"]] {
        assert!(!d.done(form).contains(&token));
    }
}

/// A reader that has seen enough is no failure.
#[test]
fn a_closed_pipe_ends_the_list() {
    let d = Database::of(shared());
    d.sql(
        "select scylla.submit_many('q', array(select to_jsonb(n) from generate_series(1, 3000) n))",
    );
    let mut command = d.command(&["list", "--all", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn wrong_arguments_are_told_before_connecting() {
    let d = Database { server: shared(), name: "no_such_database".into() };
    for (arguments, message) in [
        (&["submit"] as &[&str], "<QUEUE>"),
        (&["submit", "q", "{"], "not JSON"),
        (&["submit", "q", "--meta", "{"], "not JSON"),
        (&["submit", "q", "--priority", "-1"], "--priority"),
        (&["submit", "q", "--on-conflict", "ignore"], "--key"),
        (&["submit", "q", "--delay", "1 s", "--run-at", "now"], "cannot be used with"),
        (&["why"], "<ID>"),
        (&["why", "1"], "<ID>|[ID]"),
        (&["list", "--status", "odd"], "waiting, ready, running"),
        (&["list", "--limit", "0"], "--limit"),
        (&["list", "--spec", "x"], "not JSON"),
        (&["cancel"], "which tasks?"),
        (&["cancel", "--max-tasks", "3", "--yes"], "which tasks?"),
        (&["delete", "-q", "q"], "stdin is not a terminal"),
        (&["retry", "01990000-0000-7000-8000-000000000000", "-q", "q"], "do not go together"),
        (&["retry", "01990000-0000-7000-8000-000000000000", "--dry-run"], "do not go together"),
        (&["top", "--interval", "0"], "0.1 to 3600"),
        (&["completion", "tcsh"], "bash"),
        (&["frobnicate"], "frobnicate"),
        (&["--dbname", "host='x", "list"], "invalid connection string"),
    ] {
        let ran = d.run(arguments);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
        let said = message.split('|').any(|message| ran.err.contains(message));
        assert!(said, "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn help_has_examples_and_shells_have_completions() {
    let d = Database { server: shared(), name: "no_such_database".into() };
    for command in
        ["submit", "why", "list", "cancel", "retry", "delete", "top", "doctor", "completion"]
    {
        let help = d.done(&[command, "--help"]);
        let (_, examples) = help.split_once("Examples:\n").expect(command);
        assert!(examples.lines().filter(|line| line.contains("scylla-pg")).count() >= 2, "{help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = d.done(&["completion", shell]);
        assert!(script.contains("scylla-pg") && script.contains("doctor"), "{shell}");
    }
    assert!(d.done(&["--version"]).starts_with("scylla-pg 0."));
}
