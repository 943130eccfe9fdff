//! Judges the clients' logs against the tables: I1, B17, B55.
//!
//! A lease is certainly valid from the acknowledgement of its `own_tasks` call until the earliest
//! of these: the deadline that the last acknowledged call set, counted from that call's beginning;
//! the beginning of its return; the beginning of any client's cancel of the task; a crash that may
//! have lost the lease. A crash may lose a lease younger than `persist_leases_after` plus `GRACE`,
//! the time in which the scheduler persists it. `RESTART` is added if the scheduler was terminated
//! shortly before. A restored lease gets its full length again, so an older deadline stays a lower
//! bound.

use crate::history::log::{Answer, Call, Fault, Place, Record};
use crate::history::together::{Life, in_order, within_limits};
use client::{Uuid, milliseconds, seconds};
use std::collections::HashMap;
use std::time::{Duration, Instant};

pub const PERSIST_AFTER: Duration = milliseconds(200);
const GRACE: Duration = milliseconds(1000);
const RESTART: Duration = seconds(3);

/// A time in which one token was certainly the only valid one of its task.
pub struct Held {
    pub token: Uuid,
    pub from: Instant,
    pub to: Instant,
}

pub struct Verdict {
    pub violations: Vec<String>,
    pub submits: usize,
    pub settled: usize,
    pub leases: usize,
    /// Leases that were valid after a crash which was not allowed to lose them.
    pub survivors: usize,
    /// Runs of the schedule.
    pub ticks: usize,
}

pub fn check(records: &[Record], faults: &[Fault], tables: &HashMap<Uuid, Vec<String>>) -> Verdict {
    let mut by_task: HashMap<Uuid, Vec<&Record>> = HashMap::new();
    for record in records {
        by_task.entry(record.task()).or_default().push(record);
    }
    let violations = Vec::new();
    let mut verdict =
        Verdict { violations, submits: 0, settled: 0, leases: 0, survivors: 0, ticks: 0 };
    for id in tables.keys().filter(|id| !by_task.contains_key(id)) {
        verdict.violations.push(format!("{id} was never submitted"));
    }
    let mut places: HashMap<Place, Vec<Life>> = HashMap::new();
    for (id, mut records) in by_task {
        records.sort_by_key(|record| record.began);
        let rows = tables.get(&id).map_or(&[][..], Vec::as_slice);
        exists_once(&mut verdict, id, &records, rows);
        settled_as_acknowledged(&mut verdict, id, &records, rows);
        let held = owned_by_one(&mut verdict, id, &records, faults);
        if let Some((place, life)) = Life::new(&records, rows, held) {
            places.entry(place).or_default().push(life);
        }
    }
    within_limits(&mut verdict, &places);
    for (place, lives) in places {
        in_order(&mut verdict, place, lives);
    }
    verdict
}

fn exists_once(verdict: &mut Verdict, id: Uuid, records: &[&Record], rows: &[String]) {
    let acknowledged =
        records.iter().any(|r| matches!(r.call, Call::Submit { answer: Answer::Yes(()), .. }));
    verdict.submits += usize::from(acknowledged);
    if rows.len() > 1 || (acknowledged && rows.is_empty()) {
        verdict.violations.push(format!("{id}: acknowledged {acknowledged}, rows {rows:?}"));
    }
    let touched = |r: &&Record| {
        matches!(r.call, Call::Own { .. } | Call::Return { answer: Answer::Yes(_), .. })
    };
    if rows.is_empty() && records.iter().any(touched) {
        verdict.violations.push(format!("{id}: owned or returned, yet not there"));
    }
}

fn settled_as_acknowledged(verdict: &mut Verdict, id: Uuid, records: &[&Record], rows: &[String]) {
    let terminal = records.iter().filter_map(|record| match &record.call {
        Call::Return { answer: Answer::Yes(status), .. } if status != "ready" => {
            Some(status.as_str())
        }
        Call::Cancel { answer: Answer::Yes(true), .. } => Some("cancelled"),
        _ => None,
    });
    let terminal: Vec<&str> = terminal.collect();
    verdict.settled += terminal.len().min(1);
    if terminal.len() > 1
        || terminal.first().is_some_and(|status| !rows.iter().any(|row| row == status))
    {
        verdict
            .violations
            .push(format!("{id}: acknowledged as {terminal:?}, the tables say {rows:?}"));
    }
}

/// Whether a crash at `crash` may have lost a lease that was acknowledged at `owned`.
fn forgettable(owned: Instant, crash: Instant, faults: &[Fault]) -> bool {
    let mut needed = PERSIST_AFTER + GRACE;
    let scheduler_was_away = |fault: &Fault| match fault {
        Fault::SchedulerTerminated { at } => *at < crash && crash - *at < needed + RESTART,
        Fault::Crash { .. } => false,
    };
    if faults.iter().any(scheduler_was_away) {
        needed += RESTART;
    }
    crash.saturating_duration_since(owned) < needed
}

/// The time of a crash: its beginning and its end.
type Crash = (Instant, Instant);

/// The crashes that may lose a lease acknowledged at `owned`, and those that must not.
fn crashes(owned: Instant, faults: &[Fault]) -> (Vec<Crash>, Vec<Crash>) {
    let crash = |fault: &Fault| match fault {
        Fault::Crash { at, up } => Some((*at, *up)),
        Fault::SchedulerTerminated { .. } => None,
    };
    faults
        .iter()
        .filter_map(crash)
        .filter(|(_, up)| *up >= owned)
        .partition(|(at, _)| forgettable(owned, *at, faults))
}

/// Returns the times in which the task was certainly leased.
fn owned_by_one(
    verdict: &mut Verdict,
    id: Uuid,
    records: &[&Record],
    faults: &[Fault],
) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    let mut owns: Vec<(&Record, Uuid)> = Vec::new();
    for own in records {
        let Call::Own { token, length, .. } = own.call else { continue };
        owns.push((own, token));
        verdict.leases += 1;
        let (forgetting, sparing) = crashes(own.ended, faults);
        let cancelled = records
            .iter()
            .filter(|r| matches!(r.call, Call::Cancel { .. }) && r.ended >= own.began)
            .map(|r| r.began)
            .min();
        // An answer that came before the end of a crash proves nothing about the time after it.
        let cut = |from: Instant, to: Instant| {
            let crashed = forgetting.iter().filter(|(_, up)| *up >= from).map(|(at, _)| *at);
            crashed.chain(cancelled).fold(to, Instant::min)
        };
        let mut from = own.ended;
        let mut to = cut(from, own.began + length);
        for record in records.iter().filter(|record| record.began >= own.ended) {
            let lost = match &record.call {
                Call::Extend { token: t, answer: Answer::Yes(true), length, .. } if *t == token => {
                    verdict.survivors +=
                        usize::from(sparing.iter().any(|(_, up)| *up < record.began));
                    held.push(Held { token, from, to: to.min(record.ended) });
                    from = record.ended;
                    to = cut(from, record.began + *length);
                    continue;
                }
                Call::Extend { token: t, answer: Answer::Yes(false), .. } if *t == token => true,
                Call::Return { token: t, answer: Answer::Refused(_), .. } if *t == token => true,
                Call::Return { token: t, .. } if *t == token => false,
                _ => continue,
            };
            if lost && record.ended < to {
                let early = to - record.ended;
                verdict
                    .violations
                    .push(format!("{id}: lease {token} was lost {early:?} early: {record:?}"));
            }
            to = to.min(record.began);
            break;
        }
        held.push(Held { token, from, to });
    }
    for (own, token) in owns {
        for other in held.iter().filter(|other| other.token != token) {
            if other.from < own.began && own.ended < other.to {
                verdict.violations.push(format!(
                    "{id}: client {} got {token} while {} was valid: {own:?}",
                    own.client, other.token
                ));
            }
        }
        let the_same = |r: &&&Record| matches!(r.call, Call::Own { token: t, .. } if t == token);
        if records.iter().filter(the_same).count() > 1 {
            verdict.violations.push(format!("{id}: token {token} was handed out twice"));
        }
    }
    held
}
