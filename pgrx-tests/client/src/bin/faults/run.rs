//! One run of a scenario: its random choices, how many faults it makes, and how it ended.

use client::{milliseconds, sleep};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A way to torment a server.
pub struct Scenario {
    pub name: &'static str,
    /// How many faults a whole run makes.
    pub times: usize,
    /// What must hold, for `--list`.
    pub pass: &'static str,
    /// A run of fewer minutes leaves it out, unless it is named.
    pub least: u32,
    /// Panics when that does not hold; returns what happened.
    pub torment: fn(&mut Run) -> String,
}

pub enum Outcome {
    Passed(String),
    Failed(String),
    /// This machine, or this user, cannot make these faults.
    Skipped(String),
}

pub struct Run {
    /// The choices of this scenario. They do not depend on which others run.
    pub random: StdRng,
    pub seed: u64,
    /// How many faults to make.
    pub times: usize,
    /// How many a whole run makes.
    whole: usize,
    done: usize,
    skipped: bool,
}

impl Run {
    /// `share`: of the faults of a whole run.
    pub fn new(scenario: &Scenario, seed: u64, share: f64) -> Run {
        let mut hasher = DefaultHasher::new();
        (seed, scenario.name).hash(&mut hasher);
        let seed = hasher.finish();
        let times = (scenario.times as f64 * share).ceil() as usize;
        Run {
            random: StdRng::seed_from_u64(seed),
            seed,
            times,
            whole: scenario.times,
            done: 0,
            skipped: false,
        }
    }

    /// Plays a scenario to its end. What the test harness asserts ends as a panic.
    pub fn play(&mut self, scenario: &Scenario) -> Outcome {
        let result = catch_unwind(AssertUnwindSafe(|| (scenario.torment)(self)));
        self.clear_progress();
        match result {
            Ok(why) if self.skipped => Outcome::Skipped(why),
            Ok(text) => Outcome::Passed(text),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Outcome::Failed(text.unwrap_or("a panic without a message").to_owned())
            }
        }
    }

    /// Whether all faults of a whole run are made.
    pub fn is_whole(&self) -> bool {
        self.times >= self.whole
    }

    /// Ends a scenario that cannot be played here.
    pub fn skip(&mut self, why: &str) -> String {
        self.skipped = true;
        why.to_owned()
    }

    /// Lets the clients work until the next fault: now and then so long that a crash may forget
    /// only some leases.
    pub fn pause(&mut self) {
        let length = match self.whole {
            151.. => self.random.random_range(20..200),
            _ if self.random.random_bool(0.12) => 2_500,
            _ => self.random.random_range(100..1000),
        };
        sleep(milliseconds(length));
    }

    /// Notes that one more fault was made, and shows how far the run is on a terminal.
    pub fn made_one(&mut self) {
        self.done += 1;
        if std::io::stderr().is_terminal() {
            eprint!("\r{} of {} ", self.done, self.times);
            let _ = std::io::stderr().flush();
        }
    }

    fn clear_progress(&self) {
        if self.done > 0 && std::io::stderr().is_terminal() {
            eprint!("\r{:20}\r", "");
        }
    }
}
