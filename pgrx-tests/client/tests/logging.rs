//! The server's log: what callers choose does not fill it, and nor does what fails again and again.

use client::*;

/// The lines of the log that have this text.
fn lines(server: &Server, text: &str) -> Vec<String> {
    server.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[track_caller]
fn assert_short(server: &Server) {
    let longest = server.log().lines().map(str::len).max().unwrap_or(0);
    assert!(longest < 2_000, "a line of {longest} bytes");
}

/// However long what a caller names, a line of the log is short.
#[test]
fn what_a_caller_names_is_cut() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let long = "repeat('x', 900000)";
    let at = "'deadline', now(), 'value', 'v'";
    for element in [
        format!("'id', {long}, {at}"),
        format!("'id', 'm', {at}, {long}, 1"),
        format!("'id', 'm', 'deadline', {long}, 'value', 'v'"),
        format!("'id', 'm', {at}, 'group_key', {long}"),
    ] {
        let call = format!(
            "select outcome from scylla.delay_messages('q', jsonb_build_array(jsonb_build_object({element})))"
        );
        assert_eq!(s.text(&call), "invalid");
    }
    assert!(!s.value::<bool>(&format!("select scylla.delay({long}, now(), 'q', 'v')"), &[]));
    assert_eq!(lines(&server, "scylla dropped a message for queue").len(), 5);
    for call in [
        format!("own_tasks('w', {long})"),
        format!("submit('q', key => 'k', on_conflict => {long})"),
        format!("submit_tasks(jsonb_build_array(jsonb_build_object('queue', 'q', {long}, 1)))"),
        format!("next_runs('@daily', time_zone => {long})"),
        format!("next_runs({long})"),
        format!("schedule('s', '@daily', 'q', misfire => {long})"),
        format!("run_sql('select 1', on_failure => {long})"),
        format!("reset_queue('q', {long})"),
    ] {
        let refused = s.refusal(&format!("select * from scylla.{call}"), &[]);
        assert!(refused.message().len() < 2_000, "{call}");
    }
    // A role or a database that does not exist is read as none, with a warning.
    for kind in ["role", "database"] {
        s.run(&format!("select {long}::scylla.{kind}"));
    }
    assert_short(&server);
}

/// A duty that fails is tried again, and logged from time to time.
#[test]
fn a_duty_that_fails_is_not_logged_each_time() {
    let server =
        Server::start(&["scylla.sweep_interval = '10ms'", "scylla.persist_leases_after = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "create sequence tried;
         create function refuse(id uuid) returns uuid language plpgsql immutable as
           $$ begin perform nextval('public.tried'); raise '%', repeat('no ', 100000); end $$;
         create index refuse on scylla.lease (public.refuse(id))",
    );
    s.submit("q");
    s.own_one("q");
    eventually(seconds(60), "it is tried again", || {
        (s.count("select last_value from tried") > 20).then_some(())
    });
    assert_eq!(lines(&server, "scylla could not persist leases").len(), 1, "once a minute at most");
    assert_short(&server);
    // A command whose result cannot be written, too.
    s.run("create index refuse_all on scylla.finished (public.refuse(id))");
    let tried = s.count("select last_value from tried");
    s.run("drop index scylla.refuse");
    s.run("select scylla.run_sql('select 1')");
    eventually(seconds(60), "it is tried again", || {
        (s.count("select last_value from tried") > tried + 20).then_some(())
    });
    assert_eq!(lines(&server, "scylla could not return an SQL task").len(), 1);
    assert_short(&server);
}
