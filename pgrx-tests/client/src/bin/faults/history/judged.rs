//! Tests of the checker: it reports each kind of violation, and reports nothing else.

use crate::history::checker::check;
use crate::history::log::{Answer, Call, Fault, Place, Record};
use crate::history::tail::{Tail, forget};
use crate::queues::queue;
use client::{Uuid, milliseconds, seconds};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A sequence of calls, with times in milliseconds; each call takes one millisecond.
struct Story {
    start: Instant,
    place: Place,
    task: Uuid,
    /// Tasks before this one, which are ready.
    others: Vec<Uuid>,
    records: Vec<Record>,
    faults: Vec<Fault>,
}

const LENGTH: Duration = seconds(30);

impl Story {
    fn begin() -> Story {
        Story::begin_in("red")
    }

    fn begin_in(queue: &'static str) -> Story {
        let (others, records, faults) = Default::default();
        let (start, task) = (Instant::now(), Uuid::new_v4());
        let mut story =
            Story { start, place: Place { queue, group: 0 }, task, others, records, faults };
        story.submit(0);
        story
    }

    fn submit(&mut self, time: u64) {
        let (id, place) = (self.task, self.place);
        self.say(time, Call::Submit { id, place, answer: Answer::Yes(()) });
    }

    /// Goes on with another task.
    fn submit_another(&mut self, time: u64) {
        self.others.push(std::mem::replace(&mut self.task, Uuid::new_v4()));
        self.submit(time);
    }

    fn at(&self, time: u64) -> Instant {
        self.start + milliseconds(time)
    }

    fn say(&mut self, time: u64, call: Call) {
        let (began, ended) = (self.at(time), self.at(time + 1));
        self.records.push(Record { client: 0, began, ended, call });
    }

    fn own(&mut self, time: u64) -> Uuid {
        let token = Uuid::new_v4();
        self.say(time, Call::Own { id: self.task, token, length: LENGTH });
        token
    }

    fn extend(&mut self, time: u64, token: Uuid, answer: bool) {
        let answer = Answer::Yes(answer);
        self.say(time, Call::Extend { id: self.task, token, length: LENGTH, answer });
    }

    fn return_task(&mut self, time: u64, token: Uuid, answer: Answer<String>) {
        self.say(time, Call::Return { id: self.task, token, answer });
    }

    fn cancel(&mut self, time: u64, answer: Answer<bool>) {
        self.say(time, Call::Cancel { id: self.task, answer });
    }

    fn crash(&mut self, time: u64) {
        self.faults.push(Fault::Crash { at: self.at(time), up: self.at(time + 500) });
    }

    /// The number of violations that the checker reports for these rows.
    fn objections(&self, rows: &[&str]) -> usize {
        let rows = rows.iter().map(|row| row.to_string()).collect();
        let ready = |id: &Uuid| (*id, vec!["ready".to_owned()]);
        let mut tables: HashMap<_, _> = self.others.iter().map(ready).collect();
        tables.insert(self.task, rows);
        check(&self.records, &self.faults, &tables).violations.len()
    }
}

fn yes(status: &str) -> Answer<String> {
    Answer::Yes(status.to_owned())
}

#[test]
fn lost_doubled_and_foreign_tasks_are_noticed() {
    let mut story = Story::begin();
    assert_eq!(story.objections(&["ready"]), 0);
    assert_eq!(story.objections(&[]), 1, "lost");
    assert_eq!(story.objections(&["ready", "completed"]), 1, "twice");
    story.records.clear();
    assert_eq!(story.objections(&["ready"]), 1, "never submitted");
}

#[test]
fn forgotten_and_doubled_settlings_are_noticed() {
    let mut story = Story::begin();
    let token = story.own(10);
    story.return_task(20, token, yes("completed"));
    assert_eq!(story.objections(&["completed"]), 0);
    assert_eq!(story.objections(&["aborted"]), 1);
    assert_eq!(story.objections(&["ready"]), 1);
    story.cancel(30, Answer::Yes(false));
    assert_eq!(story.objections(&["completed"]), 0);
    story.cancel(40, Answer::Yes(true));
    assert_eq!(story.objections(&["completed"]), 1, "two winners");
}

#[test]
fn shared_task_is_noticed() {
    let mut story = Story::begin();
    story.own(10);
    story.own(100);
    assert_eq!(story.objections(&["running"]), 1);
    let mut story = Story::begin();
    story.own(10);
    story.own(31_000);
    assert_eq!(story.objections(&["running"]), 0, "the first one had expired");
    let mut story = Story::begin();
    let token = story.own(10);
    story.extend(20_000, token, true);
    story.own(31_000);
    assert_eq!(story.objections(&["running"]), 1, "it had been extended");
    let mut story = Story::begin();
    let token = story.own(10);
    story.return_task(90, token, Answer::Unknown);
    story.own(100);
    assert_eq!(story.objections(&["running"]), 0, "it may have been returned");
}

#[test]
fn lease_lost_without_reason_is_noticed() {
    let mut story = Story::begin();
    let token = story.own(10);
    story.extend(5000, token, false);
    assert_eq!(story.objections(&["running"]), 1);
    let mut story = Story::begin();
    let token = story.own(10);
    story.return_task(5000, token, Answer::Refused("55006".to_owned()));
    assert_eq!(story.objections(&["running"]), 1);
    story.cancel(4000, Answer::Unknown);
    assert_eq!(story.objections(&["cancelled"]), 0, "another client may have cancelled it");
}

#[test]
fn crash_may_take_young_leases_only() {
    for (crash, objections) in [(600, 0), (9000, 1)] {
        let mut story = Story::begin();
        let token = story.own(10);
        story.crash(crash);
        story.extend(11_000, token, false);
        assert_eq!(story.objections(&["ready"]), objections, "crash at {crash}");
        let mut story = Story::begin();
        story.own(10);
        story.crash(crash);
        story.own(11_000);
        assert_eq!(story.objections(&["running"]), objections, "crash at {crash}");
    }
    let mut story = Story::begin();
    let token = story.own(10);
    story.crash(600);
    story.extend(2000, token, true);
    story.own(11_000);
    assert_eq!(story.objections(&["running"]), 1, "it is valid still");
    let mut story = Story::begin();
    let token = story.own(5000);
    story.faults.push(Fault::SchedulerTerminated { at: story.at(7000) });
    story.crash(8000);
    story.extend(11_000, token, false);
    assert_eq!(story.objections(&["running"]), 0, "no scheduler ran that could persist it");
}

#[test]
fn limit_that_is_exceeded_is_noticed() {
    let limit = queue("green").max_running_per_group.expect("a limit") as u64;
    for (last_own, objections) in [(1000, 1), (31_500, 0)] {
        let mut story = Story::begin_in("green");
        for n in 1..=limit {
            story.own(500 + n);
            story.submit_another(n);
        }
        assert_eq!(story.objections(&["ready"]), 0);
        story.own(last_own);
        assert_eq!(story.objections(&["running"]), objections, "owned at {last_own}");
    }
}

#[test]
fn broken_order_is_noticed() {
    for (time, objections) in [(15, 0), (30, 1)] {
        let mut story = Story::begin_in("blue");
        story.cancel(time, Answer::Unknown);
        story.submit_another(5);
        assert_eq!(story.objections(&["ready"]), 0);
        story.own(20);
        assert_eq!(story.objections(&["running"]), objections, "the first one goes at {time}");
    }
    let mut story = Story::begin_in("blue");
    story.submit_another(5);
    story.own(20);
    assert_eq!(story.objections(&["running"]), 1, "the first one is ready");
    story.place.group = 1;
    story.submit_another(25);
    story.own(30);
    assert_eq!(story.objections(&["running"]), 1, "another group has its own order");
}

/// A story whose answers since 1,000 ms may be lost, until 2,000 ms.
fn with_a_tail(tell: impl FnOnce(&mut Story)) -> Story {
    let mut story = Story::begin();
    tell(&mut story);
    let (from, to) = (story.at(1000), story.at(2000));
    forget(&mut story.records, &[Tail { from, to }]);
    story.faults.push(Fault::Crash { at: from, up: to });
    story
}

#[test]
fn only_a_tail_may_be_lost() {
    for (time, objections) in [(500, 1), (1500, 0), (2500, 1)] {
        let story = with_a_tail(|story| {
            let token = story.own(400);
            story.return_task(time, token, yes("completed"));
        });
        assert_eq!(story.objections(&["ready"]), objections, "returned at {time}");
        let story = with_a_tail(|story| {
            story.records.clear();
            story.submit(time);
            story.own(time + 1);
        });
        let lost = if time == 1500 { 0 } else { 2 };
        assert_eq!(story.objections(&[]), lost, "submitted at {time}");
        let story = with_a_tail(|story| story.cancel(time, Answer::Yes(true)));
        assert_eq!(story.objections(&["ready"]), objections, "cancelled at {time}");
    }
    let story = with_a_tail(|story| {
        story.own(1500);
        story.own(2100);
    });
    assert_eq!(story.objections(&["running"]), 0, "the first lease was lost");
    let story = with_a_tail(|story| {
        story.own(2100);
        story.own(2200);
    });
    assert_eq!(story.objections(&["running"]), 1, "after the promotion");
}
