//! Looking ahead: the next times of an expression, and the coming runs of all schedules.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::schedules::timing::Timing;
use crate::pg::datum::{self, TIMESTAMPTZ};
use crate::pg::spi::statement;
use crate::storage::rows::session;
use board::{Micros, Wall};
use pgrx::pg_sys::Datum;

statement!(ACTIVE, "schedules/active", [TIMESTAMPTZ]);

/// The times of an expression after a time, at most so many.
pub fn next_runs(timing: &Timing, after: Wall, count: usize) -> Vec<Wall> {
    let series = timing.series();
    let next = |after: &Wall| {
        pgrx::check_for_interrupts!();
        series.first(*after + Micros(1))
    };
    std::iter::successors(next(&after), next).take(count).collect()
}

/// A run that is to come: name, time, queue, action.
pub type Coming = [Option<Datum>; 4];

/// The runs of active schedules after a time and up to another, by schedule, each shown to `show`.
/// A schedule that cannot be read has none. `is_visible`: whether those of a queue are shown.
pub fn coming_runs(
    db: &Database,
    (after, until): (Wall, Wall),
    is_visible: impl Fn(&[u8]) -> bool,
    mut show: impl FnMut(Coming),
) {
    let session = session(db);
    let rows = session.run(&ACTIVE, &[Some(datum::timestamptz(until))]);
    for row in 0..rows.len() {
        let value = |column| rows.get(row, column);
        let text = |column| datum::text(value(column));
        let time = |column| value(column).map(datum::wall);
        if !is_visible(&text(6)) {
            continue;
        }
        let timing: Result<Timing> = Timing::read(&text(1), &text(2), time(3), time(4));
        let Ok(timing) = timing else { continue };
        let series = timing.series();
        let from = (after + Micros(1)).max(time(5).unwrap_or(Wall::NEVER));
        let mut next = series.first(from);
        while let Some(at) = next.filter(|at| *at <= until) {
            pgrx::check_for_interrupts!();
            show([value(0), Some(datum::timestamptz(at)), value(6), value(7)]);
            next = series.first(at + Micros(1));
        }
    }
}
