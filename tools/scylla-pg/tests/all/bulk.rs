//! `cancel`, `retry` and `delete`.

use super::server::*;
use serde_json::json;

const NO_TASK: &str = "01990000-0000-7000-8000-000000000000";

fn submit(d: &Database, queue: &str, number: i32) {
    let specs = format!("array(select to_jsonb(n) from generate_series(1, {number}) n)");
    d.sql(&format!("select scylla.submit_many('{queue}', {specs})"));
}

fn count(d: &Database, status: &str) -> String {
    d.sql(&format!("select count(*) from scylla.tasks where status = '{status}'"))
}

#[test]
fn ids_have_an_outcome_each() {
    let d = Database::of(shared());
    let id = d.done(&["submit", "q"]);
    let ran = d.run(&["cancel", &id, NO_TASK, "--json"]);
    assert_eq!(ran.status, 1);
    let expected =
        [json!({"id": id, "outcome": "cancelled"}), json!({"id": NO_TASK, "outcome": "not found"})];
    assert_eq!(objects(&ran.out), expected);
    let again = d.run(&["cancel", &id]);
    assert_eq!(again.status, 1);
    assert!(again.out.contains("settled"), "{}", again.out);

    let retried = d.json(&["resubmit", &id]);
    assert_eq!(retried[0]["outcome"], "resubmitted");
    let new = retried[0]["new_id"].as_str().unwrap();
    assert_eq!(d.sql(&format!("select resubmitted_from from scylla.tasks where id = '{new}'")), id);
    let refused = d.run(&["retry", new]);
    assert_eq!(refused.status, 1);
    assert!(refused.out.contains("neither aborted nor cancelled"), "{}", refused.out);

    assert_eq!(d.json(&["delete", &id, new, NO_TASK]), [json!({"deleted": 2})]);
    assert_eq!(d.done(&["list", "--json"]), "");
}

#[test]
fn what_matches_is_done_in_batches() {
    let d = Database::of(shared());
    submit(&d, "a", 2500);
    submit(&d, "b", 3);
    assert_eq!(d.done(&["cancel", "-q", "a", "--dry-run"]), "2500 match");
    assert_eq!(
        d.json(&["cancel", "-q", "a", "--dry-run", "--max-tasks", "7"]),
        [json!({"matched": 7})]
    );
    assert_eq!(count(&d, "cancelled"), "0");
    let some = d.json(&["cancel", "-q", "a", "--max-tasks", "1200", "--yes"]);
    assert_eq!(some, [json!({"matched": 1200, "cancelled": 1200})]);
    assert_eq!(count(&d, "cancelled"), "1200");
    assert_eq!(d.done(&["cancel", "--queue", "a", "--yes"]), "1300 cancelled");
    assert_eq!(count(&d, "ready"), "3");
    assert_eq!(
        d.sql("select count(distinct updated) > 2 from scylla.tasks where queue = 'a'"),
        "t"
    );

    assert_eq!(d.done(&["retry", "-q", "a", "--status", "cancelled", "-y"]), "2500 resubmitted");
    let none = d.json(&["retry", "-q", "a", "--yes"]);
    assert_eq!(none, [json!({"matched": 0, "resubmitted": 0})]);
    assert_eq!(d.done(&["delete", "-q", "a", "--spec", "17", "--yes"]), "2 deleted");
    assert_eq!(
        d.json(&["delete", "-q", "a", "--yes"]),
        [json!({"matched": 4998, "deleted": 4998})]
    );
    assert_eq!(d.sql("select count(*) from scylla.tasks"), "3");
}

#[test]
fn a_terminal_is_asked_and_shows_progress() {
    let d = Database::of(shared());
    submit(&d, "q", 4000);
    let no = d.on_terminal(&["cancel", "-q", "q"], "\n");
    assert_eq!(no.status, 1);
    assert!(no.out.contains("cancel 4000 tasks? [y/N] "), "{}", no.out);
    assert!(no.out.contains("nothing was changed"), "{}", no.out);
    assert_eq!(count(&d, "cancelled"), "0");
    let yes = d.on_terminal(&["cancel", "-q", "q"], "y\n");
    assert_eq!(yes.status, 0, "{}", yes.out);
    assert!(yes.out.contains(" of 4,000"), "{}", yes.out);
    assert!(yes.out.contains("4000 cancelled"), "{}", yes.out);
    assert_eq!(count(&d, "cancelled"), "4000");
    // Nothing to ask about.
    let none = d.on_terminal(&["cancel", "-q", "q"], "");
    assert!(none.out.contains("0 cancelled") && !none.out.contains('?'), "{}", none.out);
}

#[test]
fn a_failure_tells_how_many_were_done() {
    let d = Database::of(shared());
    submit(&d, "q", 2500);
    d.done(&["cancel", "-q", "q", "--yes"]);
    d.sql("select scylla.configure_queue('q', max_ready => 1500)");
    let ran = d.run(&["retry", "-q", "q", "--yes"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("max_ready") || ran.err.contains("full"), "{}", ran.err);
    assert!(ran.err.contains("1000 of 2500 were resubmitted before that."), "{}", ran.err);
    assert_eq!(count(&d, "ready"), "1000");
}

#[test]
fn a_filter_that_the_server_refuses_is_told() {
    let d = Database::of(shared());
    let ran = d.run(&["cancel", "-q", "q", "--created-before", "some day", "--yes"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("created_before must be a timestamptz"), "{}", ran.err);
}
