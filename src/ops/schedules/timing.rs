//! When a schedule runs, read from its columns.

use crate::error::{self, Result};
use crate::pg::datum;
use crate::pg::named::zone::TimeZone;
use board::{Micros, Wall};
use pgrx::pg_sys;
use recurrence::{Invalid, Recurrence, Series};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// How many expressions a process keeps that it has read.
const KEPT: usize = 1_024;

thread_local! {
    static EXPRESSIONS: RefCell<HashMap<Vec<u8>, Rc<Recurrence>>> = RefCell::default();
}

/// When a schedule runs.
pub struct Timing {
    pub recurrence: Rc<Recurrence>,
    zone: TimeZone,
    starts_at: Option<Wall>,
    pub ends_at: Option<Wall>,
}

impl Timing {
    /// From a schedule's expression, its time zone, and the times between which it runs.
    pub fn read(
        schedule: &[u8],
        time_zone: &[u8],
        starts_at: Option<Wall>,
        ends_at: Option<Wall>,
    ) -> Result<Timing> {
        let time_zone = String::from_utf8_lossy(time_zone);
        let zone = TimeZone::load(&time_zone).ok_or_else(|| error::unknown_zone(&time_zone))?;
        Ok(Timing { recurrence: recurrence(schedule)?, zone, starts_at, ends_at })
    }

    /// The runs, in order.
    pub fn series(&self) -> Series<'_> {
        let Timing { recurrence, zone, starts_at, ends_at } = self;
        Series { recurrence, zone, starts_at: *starts_at, ends_at: *ends_at }
    }
}

fn recurrence(text: &[u8]) -> Result<Rc<Recurrence>> {
    if let Some(known) = EXPRESSIONS.with_borrow(|known| known.get(text).cloned()) {
        return Ok(known);
    }
    let readable = String::from_utf8_lossy(text);
    let read = Recurrence::parse(&readable, interval);
    let read = Rc::new(read.map_err(|why| error::bad_schedule(&readable, &why.0))?);
    EXPRESSIONS.with_borrow_mut(|known| {
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(text.to_vec(), read.clone());
    });
    Ok(read)
}

/// The length of an interval of fixed length.
fn interval(text: &str) -> Result<Micros, Invalid> {
    let Some(interval) = datum::parse(pg_sys::interval_in, text.as_bytes()) else {
        return Err(Invalid(format!("\"{text}\" is not a valid interval.")));
    };
    // SAFETY: the input function gave an interval.
    if unsafe { (*interval.cast_mut_ptr::<pg_sys::Interval>()).month } != 0 {
        return Err(Invalid("Months and years differ in length: write a cron expression.".into()));
    }
    Ok(datum::interval_length(Some(interval)))
}
