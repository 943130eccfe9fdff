//! Sizes: a result and an error have the limit of a spec, and a task's errors one of their own.

use client::*;

/// A text of so many bytes as JSON, written in SQL.
fn error_of(bytes: usize) -> String {
    format!(
        "jsonb_build_object('code', 'c', 'args', '{{}}'::jsonb, 'description', repeat('x', {bytes}))"
    )
}

/// Retries a task with an error of so many bytes.
fn retry(s: &mut Session, bytes: usize) -> Result<String, String> {
    let lease = s.own_one("q");
    let answer = s.try_value(
        &format!("select scylla.return_task($1, $2, 'retry', error => {})", error_of(bytes)),
        &[&lease.id, &lease.token],
    );
    if answer.is_err() {
        s.return_task(&lease, "yield").expect("the lease is valid");
    }
    answer.map_err(|error| code(&error))
}

#[test]
fn result_and_error_have_the_limit_of_a_spec() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    s.run("set scylla.max_spec_size = '100 kB'");
    assert_eq!(retry(&mut s, 99_000), Ok("ready".to_owned()));
    assert_eq!(retry(&mut s, 103_000), Err("54000".to_owned()));
    let lease = s.own_one("q");
    let give = |s: &mut Session, what: &str| {
        s.try_value::<String>(
            &format!("select scylla.return_task($1, $2, {what})"),
            &[&lease.id, &lease.token],
        )
        .map_err(|error| code(&error))
    };
    let large = "to_jsonb(repeat('x', 103000))";
    assert_eq!(give(&mut s, &format!("'completed', {large}")), Err("54000".to_owned()));
    assert_eq!(
        give(&mut s, &format!("'aborted', error => {}", error_of(103_000))),
        Err("54000".to_owned())
    );
    for outcome in [
        format!("'completed', array[{large}]"),
        format!("'aborted', null, array[{}]", error_of(103_000)),
    ] {
        let many =
            format!("select scylla.return_tasks(array[$1::uuid], array[$2::uuid], {outcome})");
        let refusal = s.refusal(&many, &[&lease.id, &lease.token]);
        assert_eq!(refusal.code().code(), "54000", "{outcome}");
    }
    assert_eq!(
        give(&mut s, "'completed', to_jsonb(repeat('x', 99000))"),
        Ok("completed".to_owned())
    );
}

/// The newest ones are kept, of as many bytes as one may have and some more for the server's own.
#[test]
fn errors_are_trimmed_by_bytes() {
    let server = Server::start(&["scylla.max_spec_size = '100 kB'"]);
    let database = server.database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 5");
    let lengths = |s: &mut Session| -> Vec<usize> {
        let entry = s.entry(id);
        let errors = entry["errors"].as_array().expect("errors").clone();
        errors.iter().map(|it| it["description"].as_str().expect("a text").len()).collect()
    };
    for (bytes, kept) in [
        (60_000, vec![60_000]),
        (70_000, vec![60_000, 70_000]),
        (99_000, vec![99_000]),
        (10, vec![99_000, 10]),
    ] {
        assert_eq!(retry(&mut s, bytes).as_deref(), Ok("ready"));
        assert_eq!(lengths(&mut s), kept);
    }
    // the last try: the server adds one of its own
    assert_eq!(retry(&mut s, 99_000).as_deref(), Ok("aborted"));
    assert_eq!(lengths(&mut s)[..2], [10, 99_000]);
    assert_eq!(s.entry(id)["errors"][2]["code"], json!("tries_exhausted"));
}

/// A task whose errors leave no room for another one ends, by the worker and by the scheduler.
#[test]
fn errors_that_take_no_more_are_replaced() {
    let database = database();
    let mut s = database.connect();
    let (expires, fails) = (s.submit_with("q", "max_tries => 1"), s.submit("q"));
    // a jsonb array has room for 268,435,455 bytes; it compresses to few
    s.run("set default_toast_compression = lz4");
    s.run("update scylla.task set errors = jsonb_build_array(repeat('x', 268435440))");
    let leases = s.own_with("w", "q", 2, "timeout => '500 ms'");
    assert_eq!(s.return_task(&leases[1], "aborted").ok().as_deref(), Some("aborted"));
    let ended = "select count(*) from scylla.finished where status = 'aborted'";
    eventually(seconds(30), "the scheduler ends the other", || (s.count(ended) == 2).then_some(()));
    for (id, codes) in [(expires, "[\"tries_exhausted\"]"), (fails, "[\"test\"]")] {
        let sql = "select jsonb_path_query_array(errors, '$[*].code')::text from scylla.finished where id = $1";
        assert_eq!(s.value::<String>(sql, &[&id]), codes);
    }
}
