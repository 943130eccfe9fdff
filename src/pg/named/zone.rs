//! PostgreSQL's time zones: those that `timestamptz` goes by, updated with the system's.

use pgrx::pg_sys;
use recurrence::Zone;
use std::ffi::{CStr, CString, c_char, c_int};

/// The longest name of a time zone, in bytes.
const NAME_MAX: usize = 255;

// Declared here, since pgrx has no binding of it.
unsafe extern "C-unwind" {
    fn pg_open_tzfile(name: *const c_char, canonical: *mut c_char) -> c_int;
}

/// A time zone, known for the life of the process.
#[derive(Clone, Copy)]
pub enum TimeZone {
    Utc,
    Named(*mut pg_sys::pg_tz),
}

impl TimeZone {
    /// The time zone of a name as `find` tells it; `None`: the zone is gone.
    pub fn load(name: &str) -> Option<TimeZone> {
        if name == "UTC" {
            return Some(TimeZone::Utc);
        }
        let name = CString::new(name).ok().filter(|it| it.as_bytes().len() <= NAME_MAX)?;
        // SAFETY: the name ends with a zero, and is short enough.
        let zone = unsafe { pg_sys::pg_tzset(name.as_ptr()) };
        (!zone.is_null()).then_some(TimeZone::Named(zone))
    }

    /// The name of a time zone as the time zone database spells it; `None`: it has no such.
    /// PostgreSQL would take a name that it does not know as a rule: `UTC+3` is three hours behind
    /// UTC there.
    pub fn find(name: &str) -> Option<String> {
        let wanted = CString::new(name).ok().filter(|it| it.as_bytes().len() <= NAME_MAX)?;
        let mut canonical: [c_char; NAME_MAX + 1] = [0; NAME_MAX + 1];
        // SAFETY: two names that end with a zero; the second has room for the longest one. The file
        // is closed at once.
        let canonical = unsafe {
            let file = pg_open_tzfile(wanted.as_ptr(), canonical.as_mut_ptr());
            if file < 0 {
                return None;
            }
            libc::close(file);
            CStr::from_ptr(canonical.as_ptr()).to_string_lossy().into_owned()
        };
        TimeZone::load(&canonical).map(|_| canonical)
    }
}

impl Zone for TimeZone {
    fn offset(&self, at: i64) -> i64 {
        match self {
            TimeZone::Utc => 0,
            // SAFETY: a zone that pg_tzset gave lives as long as the process; the answer lies in
            // memory of PostgreSQL's own, or is null for a time that no calendar has.
            TimeZone::Named(zone) => unsafe {
                let time = pg_sys::pg_localtime(&at, *zone);
                if time.is_null() { 0 } else { (*time).tm_gmtoff }
            },
        }
    }
}
