//! Judges the tasks of a queue and of a group together: I4, B132, B133.

use crate::history::checker::{Held, Verdict};
use crate::history::log::{Answer, Call, Place, Record};
use crate::queues::queue;
use client::seconds;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const NEVER: Duration = seconds(1_000_000);

/// What is certain of a task beside others.
pub struct Life {
    submitted: Submitted,
    held: Vec<Held>,
    /// When each answer came that said it is owned.
    owned: Vec<Instant>,
    /// From when on it may have settled, or may wait for a retry. It is ready or runs before.
    away: Instant,
}

struct Submitted {
    began: Instant,
    ended: Instant,
}

impl Life {
    /// Nothing is certain of a task whose submission has no answer.
    pub fn new(records: &[&Record], rows: &[String], held: Vec<Held>) -> Option<(Place, Life)> {
        let submitted = records.iter().find_map(|it| match it.call {
            Call::Submit { place, answer: Answer::Yes(()), .. } => {
                Some((place, Submitted { began: it.began, ended: it.ended }))
            }
            _ => None,
        });
        let (place, submitted) = submitted?;
        let yes = Answer::Yes("aborted".to_owned());
        let is_aborted =
            |it: &&Record| matches!(&it.call, Call::Return { answer, .. } if *answer == yes);
        // The scheduler aborts what has expired on its last try, without telling a client.
        let is_aborted_later =
            rows.iter().any(|it| it == "aborted") && !records.iter().any(is_aborted);
        let ends = |it: &&&Record| match &it.call {
            Call::Return { answer, .. } => !matches!(answer, Answer::Refused(_)),
            Call::Cancel { answer, .. } => !matches!(answer, Answer::Refused(_)),
            _ => false,
        };
        let away = match is_aborted_later || rows.is_empty() {
            true => submitted.began,
            false => records.iter().find(ends).map_or(submitted.began + NEVER, |it| it.began),
        };
        let is_own = |it: &&&Record| matches!(it.call, Call::Own { .. });
        let owned = records.iter().filter(is_own).map(|it| it.ended).collect();
        Some((place, Life { submitted, held, owned, away }))
    }
}

/// No queue, and no group, has more leases at a time than its limit.
pub fn within_limits(verdict: &mut Verdict, places: &HashMap<Place, Vec<Life>>) {
    let mut queues: HashMap<&str, Vec<&Held>> = HashMap::new();
    for (place, lives) in places {
        let held: Vec<&Held> = lives.iter().flat_map(|it| &it.held).collect();
        if let Some(limit) = queue(place.queue).max_running_per_group {
            at_most(verdict, &format!("{place:?}"), limit, &held);
        }
        queues.entry(place.queue).or_default().extend(held);
    }
    for (name, held) in queues {
        if let Some(limit) = queue(name).max_running {
            at_most(verdict, name, limit, &held);
        }
    }
}

fn at_most(verdict: &mut Verdict, what: &str, limit: i32, held: &[&Held]) {
    let certain = held.iter().filter(|it| it.from < it.to);
    // An end counts before a beginning at the same time.
    let mut steps: Vec<(Instant, i32)> =
        certain.flat_map(|it| [(it.from, 1), (it.to, -1)]).collect();
    steps.sort();
    let (mut running, mut most) = (0, 0);
    for (_, step) in steps {
        running += step;
        most = most.max(running);
    }
    if most > limit {
        verdict.violations.push(format!("{what}: {most} leases at a time, and {limit} may be"));
    }
}

/// In a group of which one task may run at a time, none is owned while an earlier one is ready or
/// runs.
pub fn in_order(verdict: &mut Verdict, place: Place, mut lives: Vec<Life>) {
    if queue(place.queue).max_running_per_group != Some(1) {
        return;
    }
    lives.sort_by_key(|it| it.submitted.ended);
    let mut owned: Vec<(Instant, Instant)> = (lives.iter())
        .flat_map(|it| it.owned.iter().map(|ended| (it.submitted.began, *ended)))
        .collect();
    owned.sort();
    let mut earlier = lives.iter().peekable();
    let mut there = None;
    for (submitted, ended) in owned {
        while let Some(life) = earlier.next_if(|it| it.submitted.ended < submitted) {
            there = there.max(Some(life.away));
        }
        if there.is_some_and(|until| until > ended) {
            verdict.violations.push(format!("{place:?}: a task was owned before an earlier one"));
            return;
        }
    }
}
