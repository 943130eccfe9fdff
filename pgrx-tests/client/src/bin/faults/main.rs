//! Torments private servers with scylla, and proves what docs/reference/guarantees.md promises.
//! Prints a table as it goes; the exit status is 1 when a row failed.

mod history;
mod load;
mod queues;
mod run;
mod scenarios;
mod victim;

use clap::Parser;
use run::{Outcome, Run, Scenario};
use scenarios::SCENARIOS;
use std::process::ExitCode;
use std::time::Instant;

/// How long all scenarios take when they do all that they have to do.
const FULL_MINUTES: u32 = 60;

/// Torments a server with scylla in it, and proves that nothing was lost and nothing done twice.
#[derive(Parser)]
#[command(name = "faults")]
struct Options {
    /// Repeat the plan of faults of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Run these scenarios only, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How long all scenarios together may take, about: 60 does all that they have to do
    #[arg(long, default_value_t = FULL_MINUTES, value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// List the scenarios, and end
    #[arg(long)]
    list: bool,
}

fn list(it: &Scenario) {
    let when = match it.least {
        0 => String::new(),
        least => format!(" (with {least} minutes or more, or by its name)"),
    };
    println!("{:<20} {:>6}  {}{when}", it.name, it.times, it.pass);
}

fn main() -> ExitCode {
    let options = Options::parse();
    let unknown = |name: &&String| !SCENARIOS.iter().any(|it| it.name == **name);
    if let Some(name) = options.only.iter().find(unknown) {
        eprintln!("faults: there is no scenario {name:?}; --list names them");
        return ExitCode::from(2);
    }
    if options.list {
        SCENARIOS.iter().for_each(list);
        return ExitCode::SUCCESS;
    }
    // A scenario that fails tells why in its row, and threads in theirs.
    std::panic::set_hook(Box::new(|panic| {
        if std::thread::current().name() != Some("main") {
            eprintln!("{panic}");
        }
    }));
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("seed {seed}, to repeat these faults: make faults SEED={seed}");
    println!("{:<20} {:>6} {:>7}  {:<7} what happened", "scenario", "times", "seconds", "result");
    let (mut ran, mut failed) = (0, 0);
    for it in SCENARIOS {
        let is_named = options.only.iter().any(|name| name == it.name);
        let is_long = options.minutes < it.least;
        if !is_named && (is_long || !options.only.is_empty()) {
            continue;
        }
        let began = Instant::now();
        let mut run = Run::new(it, seed, f64::from(options.minutes) / f64::from(FULL_MINUTES));
        let (times, outcome) = (run.times, run.play(it));
        let (result, text) = match outcome {
            Outcome::Passed(text) => ("passed", text),
            Outcome::Failed(why) => ("FAILED", why),
            Outcome::Skipped(why) => ("skipped", why),
        };
        ran += u32::from(result != "skipped");
        failed += u32::from(result == "FAILED");
        let seconds = began.elapsed().as_secs_f64();
        println!("{:<20} {times:>6} {seconds:>7.1}  {result:<7} {text}", it.name);
    }
    println!("faults: {} passed, {failed} failed", ran - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
