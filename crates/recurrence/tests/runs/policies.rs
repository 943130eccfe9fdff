//! Missed and overlapping runs, with the clock as an argument: it steps, and the server is down.

use crate::zones::{parse, series, utc};
use board::{Micros, Wall};
use recurrence::{Decision, Misfire, Overlap, Pending, Recurrence, Utc, catch_up, decide};

/// A schedule as a server keeps it, and everything that it did.
struct Schedule {
    recurrence: Recurrence,
    misfire: Misfire,
    overlap: Overlap,
    next: Option<Wall>,
    missed: Vec<(Wall, Wall)>,
    /// The previous run is unfinished, for ever.
    busy: bool,
    fired: Vec<Wall>,
    skipped: u64,
}

const LATE: Micros = Micros::from_secs(60);

impl Schedule {
    fn new(text: &str, misfire: Misfire, overlap: Overlap, from: &str) -> Schedule {
        let recurrence = parse(text).unwrap();
        let next = series(&recurrence, &Utc).first(utc(from));
        Schedule {
            recurrence,
            misfire,
            overlap,
            next,
            missed: Vec::new(),
            busy: false,
            fired: Vec::new(),
            skipped: 0,
        }
    }

    fn pending(&self, next: Wall, fired_before: usize) -> Pending<'_> {
        Pending {
            series: series(&self.recurrence, &Utc),
            next,
            misfire: self.misfire,
            overlap: self.overlap,
            unfinished: self.busy || self.fired.len() > fired_before,
        }
    }

    /// Fires what is due on a server that is up since some time; runs of this turn stay unfinished.
    fn turn(&mut self, now: &str, since: &str) {
        let (now, since) = (utc(now), utc(since));
        let before = self.fired.len();
        while let Some(next) = self.next.filter(|next| *next <= now) {
            let Decision { fire, skipped, missed, next } =
                decide(&self.pending(next, before), since.max(now - LATE));
            self.fired.extend(fire);
            self.skipped += skipped;
            self.missed.extend(missed);
            self.next = next;
        }
        while let Some((from, until)) = self.missed.pop() {
            let part = catch_up(&self.pending(from, before), until, 7);
            assert!(part.fire.len() <= 7, "a batch is bounded");
            self.fired.extend(part.fire);
            self.skipped += part.skipped;
            self.missed.extend(part.rest.map(|rest| (rest, until)));
        }
    }

    #[track_caller]
    fn assert_fired_once_each(&self, fired: usize, skipped: u64) {
        let mut times = self.fired.clone();
        times.sort();
        times.dedup();
        assert_eq!(times.len(), self.fired.len(), "no time fires twice");
        assert_eq!((self.fired.len(), self.skipped), (fired, skipped));
    }
}

const HOURLY: &str = "0 * * * *";

/// B100: the next time counts from the expected one, however late a run is.
#[test]
fn the_next_run_counts_from_the_expected_one() {
    let mut it = Schedule::new("every 60 s", Misfire::Once, Overlap::Allow, "2026-06-01 00:00:00");
    it.turn("2026-06-01 00:00:00", "2026-05-31 00:00:00");
    it.turn("2026-06-01 00:01:59", "2026-05-31 00:00:00");
    assert_eq!(it.next, Some(utc("2026-06-01 00:02:00")));
    it.assert_fired_once_each(2, 0);
}

/// The server is down from 06:30 to 06:30 of the next day: 24 runs are missed.
#[test]
fn each_policy_after_a_day_of_down_time() {
    for (misfire, overlap, fired, skipped) in [
        (Misfire::Skip, Overlap::Allow, 7, 24),
        (Misfire::Skip, Overlap::Skip, 7, 24),
        (Misfire::Once, Overlap::Allow, 8, 23),
        (Misfire::Once, Overlap::Skip, 8, 23),
        (Misfire::All, Overlap::Allow, 31, 0),
        (Misfire::All, Overlap::Skip, 8, 23),
    ] {
        let mut it = Schedule::new(HOURLY, misfire, overlap, "2026-06-01 00:00:00");
        for hour in 0..7 {
            it.turn(&format!("2026-06-01 0{hour}:00:00"), "2026-05-31 00:00:00");
        }
        it.assert_fired_once_each(7, 0);
        it.turn("2026-06-02 06:30:00", "2026-06-02 06:30:00");
        it.assert_fired_once_each(fired, skipped);
        assert_eq!(it.next, Some(utc("2026-06-02 07:00:00")), "{misfire:?} {overlap:?}");
        if misfire == Misfire::Once {
            assert_eq!(it.fired.last(), Some(&utc("2026-06-02 06:00:00")), "the latest");
        }
        if (misfire, overlap) == (Misfire::All, Overlap::Skip) {
            assert_eq!(it.fired.last(), Some(&utc("2026-06-01 07:00:00")), "the first");
        }
    }
}

/// The clock steps forward by an hour and a half: 07:00 and 08:00 pass at once.
#[test]
fn each_policy_when_the_clock_steps_forward() {
    for (misfire, overlap, fired, skipped) in [
        (Misfire::Skip, Overlap::Allow, 1, 2),
        (Misfire::Once, Overlap::Allow, 2, 1),
        (Misfire::All, Overlap::Allow, 3, 0),
        (Misfire::All, Overlap::Skip, 2, 1),
    ] {
        let mut it = Schedule::new(HOURLY, misfire, overlap, "2026-06-01 06:00:00");
        it.turn("2026-06-01 06:00:10", "2026-06-01 05:00:00");
        it.assert_fired_once_each(1, 0);
        it.turn("2026-06-01 08:15:00", "2026-06-01 05:00:00");
        it.assert_fired_once_each(fired, skipped);
        assert_eq!(it.next, Some(utc("2026-06-01 09:00:00")), "{misfire:?} {overlap:?}");
    }
}

/// The clock steps back by an hour, and back by a day: what has fired does not fire again.
#[test]
fn no_policy_fires_twice_when_the_clock_steps_back() {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All] {
        let mut it = Schedule::new(HOURLY, misfire, Overlap::Allow, "2026-06-01 06:00:00");
        for now in ["06:00:00", "07:00:01", "06:00:01", "06:59:59", "07:00:02", "08:00:00"] {
            it.turn(&format!("2026-06-01 {now}"), "2026-06-01 06:00:00");
        }
        it.assert_fired_once_each(3, 0);
        it.turn("2026-05-31 08:30:00", "2026-06-01 06:00:00");
        it.turn("2026-06-01 08:30:00", "2026-05-31 08:30:00");
        it.assert_fired_once_each(3, 0);
        it.turn("2026-06-01 09:00:00", "2026-05-31 08:30:00");
        it.assert_fired_once_each(4, 0);
    }
}

/// A run that is a little late was not missed, unless the server was down when its time came.
#[test]
fn a_late_run_is_no_missed_one() {
    let mut it = Schedule::new("every 10 s", Misfire::Skip, Overlap::Allow, "2026-06-01 00:00:00");
    it.turn("2026-06-01 00:00:25", "2026-05-31 00:00:00");
    it.assert_fired_once_each(3, 0);
    // the server was down for a moment, at 00:00:30
    it.turn("2026-06-01 00:00:31", "2026-06-01 00:00:31");
    it.assert_fired_once_each(3, 1);
    // more than a minute late is missed
    it.turn("2026-06-01 00:02:45", "2026-06-01 00:00:31");
    it.assert_fired_once_each(9, 8);
}

#[test]
fn a_run_is_skipped_while_the_previous_one_is_unfinished() {
    let mut it = Schedule::new(HOURLY, Misfire::Once, Overlap::Skip, "2026-06-01 06:00:00");
    it.busy = true;
    it.turn("2026-06-01 06:00:00", "2026-06-01 05:00:00");
    it.turn("2026-06-01 07:00:00", "2026-06-01 05:00:00");
    it.turn("2026-06-02 07:30:00", "2026-06-02 07:30:00");
    it.assert_fired_once_each(0, 2 + 24);
    it.busy = false;
    it.turn("2026-06-02 08:00:00", "2026-06-02 07:30:00");
    it.assert_fired_once_each(1, 26);
    it.overlap = Overlap::Allow;
    it.busy = true;
    it.turn("2026-06-02 09:00:00", "2026-06-02 07:30:00");
    it.assert_fired_once_each(2, 26);
}

/// A year of every second is 31 million runs: counting them takes no time, and they come in
/// batches.
#[test]
fn a_year_of_seconds_is_dealt_with_at_once() {
    let begun = std::time::Instant::now();
    for text in ["every 1 s", "* * * * * *"] {
        for (misfire, overlap, fired) in [
            (Misfire::Skip, Overlap::Allow, 0),
            (Misfire::Once, Overlap::Allow, 1),
            (Misfire::All, Overlap::Skip, 1),
        ] {
            let mut it = Schedule::new(text, misfire, overlap, "2026-01-01 00:00:00");
            let next = it.next.unwrap();
            let now = utc("2027-01-01 00:00:00");
            let decision = decide(&it.pending(next, 0), now);
            it.fired.extend(decision.fire);
            assert_eq!(it.fired.len(), fired);
            assert_eq!(decision.skipped, 31_536_000 - fired as u64, "{text} {misfire:?}");
            assert_eq!(decision.next, Some(now));
        }
        let it = Schedule::new(text, Misfire::All, Overlap::Allow, "2026-01-01 00:00:00");
        let (next, until) = (it.next.unwrap(), utc("2027-01-01 00:00:00"));
        let decision = decide(&it.pending(next, 0), until);
        assert_eq!((decision.fire, decision.missed), (None, Some((next, until))));
        let part = catch_up(&it.pending(next, 0), until, 1_000);
        assert_eq!((part.fire.len(), part.rest), (1_000, Some(next + Micros::from_secs(1_000))));
        // made to skip overlaps meanwhile: the first, and no more
        let it = Schedule { overlap: Overlap::Skip, ..it };
        let part = catch_up(&it.pending(next, 0), until, 1_000);
        assert_eq!((part.fire.len(), part.skipped, part.rest), (1, 31_535_999, None));
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn words_are_those_of_the_interface() {
    let misfires = [&b"skip"[..], b"once", b"all", b"Skip", b""].map(Misfire::parse);
    let [skip, once, all] = [Misfire::Skip, Misfire::Once, Misfire::All].map(Some);
    assert_eq!(misfires, [skip, once, all, None, None]);
    let overlaps = [&b"allow"[..], b"skip", b"once"].map(Overlap::parse);
    assert_eq!(overlaps, [Some(Overlap::Allow), Some(Overlap::Skip), None]);
}
