//! Schedules: when runs fire, once each, whatever crashes; what happens to those that were missed.

mod crashes;
mod firing;
mod policies;
mod registering;

use client::*;

/// Fires what is due at a time, for a scheduler that fires since some time; how many runs fired.
/// Times are in UTC.
fn fire(s: &mut Session, now: &str, since: &str) -> i64 {
    let sql = "select scylla._fire_schedules(($1::text || '+00')::timestamptz, ($2::text || '+00')::timestamptz)";
    s.value(sql, &[&now, &since])
}

/// Registers a schedule whose first run is in 2030, which the scheduler does not see.
fn schedule(s: &mut Session, name: &str, expression: &str, options: &str) -> i64 {
    let sql = format!(
        "select scylla.schedule($1, $2, 'q', starts_at => '2030-01-01 00:00+00'{}{options})",
        if options.is_empty() { "" } else { ", " }
    );
    s.value(&sql, &[&name, &expression])
}

/// The expected times of a schedule's runs that fired, live or settled, in order; without the date
/// of the first of them.
fn fired(s: &mut Session, name: &str) -> Vec<String> {
    let sql =
        "select split_part(key, '@', 2) from scylla.tasks where key like $1 || '@%' order by 1";
    s.query(sql, &[&name]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// fired and skipped.
fn counts(s: &mut Session, name: &str) -> (i64, i64) {
    let row = s
        .query_one("select fired, skipped from scylla.schedules where name = $1", &[&name])
        .unwrap();
    (row.get(0), row.get(1))
}

fn next_run(s: &mut Session, name: &str) -> String {
    let sql =
        "select coalesce(to_char(next_run at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), 'none')
               from scylla.schedules where name = $1";
    s.value(sql, &[&name])
}

/// No expected time has two tasks; how many there are.
#[track_caller]
fn assert_no_time_twice(s: &mut Session) -> i64 {
    // In one snapshot: the scheduler may be firing.
    let sql = "select count(*), count(distinct key) from (
                   select key from scylla.task where schedule is not null
                   union all select key from scylla.finished where schedule is not null) t
               where key is not null";
    let row = &s.query(sql, &[]).expect("the keys")[0];
    let [all, distinct]: [i64; 2] = [row.get(0), row.get(1)];
    assert_eq!(distinct, all);
    all
}
