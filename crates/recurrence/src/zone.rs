//! Time zones: which instant a local time is, where clocks change.
//!
//! A local time that clocks skip is taken as the instant right after the gap. One that comes twice
//! is taken as the first of the two. So the instants of rising local times rise, too.

/// A time zone. Times are seconds since 1970-01-01, UTC.
pub trait Zone {
    /// How far local time is ahead of UTC at an instant, in seconds.
    fn offset(&self, at: i64) -> i64;
}

/// Coordinated universal time.
pub struct Utc;

impl Zone for Utc {
    fn offset(&self, _at: i64) -> i64 {
        0
    }
}

/// Farther than any offset: a clock changes at most once within two of these.
const MARGIN: i64 = 86_400;

/// The instant at which a local time is due.
pub fn instant(zone: &dyn Zone, local: i64) -> i64 {
    let (low, high) = (local - MARGIN, local + MARGIN);
    let (before, after) = (zone.offset(low), zone.offset(high));
    if before == after {
        return local - before;
    }
    let change = change(zone, low, high);
    if local - before < change {
        local - before
    } else {
        // In the gap: right after it.
        (local - after).max(change)
    }
}

/// The latest local time that is due at an instant or was before.
pub fn latest_local(zone: &dyn Zone, at: i64) -> i64 {
    let local = at + zone.offset(at);
    let first = instant(zone, local);
    if first >= at {
        return local;
    }
    // The clock was set back: until then it showed later times.
    let before = local - first;
    change(zone, first, at) + before - 1
}

/// The changes of the clock by which local times are skipped, after `from` and up to `until`: the
/// last local time before each, and the first after it.
pub fn gaps(zone: &dyn Zone, from: i64, until: i64) -> impl Iterator<Item = (i64, i64)> {
    let days = (from..until).step_by(MARGIN as usize);
    days.filter_map(move |low| {
        let high = (low + MARGIN).min(until);
        let (before, after) = (zone.offset(low), zone.offset(high));
        (before < after).then(|| {
            let change = change(zone, low, high);
            (change + before - 1, change + after)
        })
    })
}

/// The first instant after `low` at which the offset is no longer that of `low`, up to `high`.
fn change(zone: &dyn Zone, mut low: i64, mut high: i64) -> i64 {
    let before = zone.offset(low);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if zone.offset(middle) == before { low = middle } else { high = middle }
    }
    high
}
