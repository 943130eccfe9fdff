//! Lengths of time, and instants on the two clocks. Arithmetic saturates: what is beyond the range
//! of a type is its last value.

use std::ops::{Add, Div, Mul, Sub};

/// A length of time in microseconds, as an `interval` measures it. May be negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(transparent)]
pub struct Micros(pub i64);

impl Micros {
    /// No time at all.
    pub const ZERO: Micros = Micros(0);
    /// The longest length.
    pub const MAX: Micros = Micros(i64::MAX);

    /// So many milliseconds.
    pub const fn from_millis(millis: i64) -> Micros {
        Micros(millis.saturating_mul(1_000))
    }

    /// So many seconds.
    pub const fn from_secs(secs: i64) -> Micros {
        Micros(secs.saturating_mul(1_000_000))
    }

    /// So many days of 24 hours.
    pub const fn from_days(days: i64) -> Micros {
        Micros::from_secs(days.saturating_mul(86_400))
    }

    /// Whole milliseconds, rounded up: a sleep of this length is never too short.
    pub const fn millis_up(self) -> i64 {
        self.0.div_euclid(1_000) + (self.0.rem_euclid(1_000) > 0) as i64
    }
}

impl Add for Micros {
    type Output = Micros;
    fn add(self, other: Micros) -> Micros {
        Micros(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Micros;
    fn sub(self, other: Micros) -> Micros {
        Micros(self.0.saturating_sub(other.0))
    }
}

impl Mul<i64> for Micros {
    type Output = Micros;
    fn mul(self, times: i64) -> Micros {
        Micros(self.0.saturating_mul(times))
    }
}

impl Div<i64> for Micros {
    type Output = Micros;
    fn div(self, parts: i64) -> Micros {
        Micros(self.0.saturating_div(parts))
    }
}

/// An instant on one clock, which cannot be compared with one on another.
macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
        #[repr(transparent)]
        pub struct $name(pub i64);

        impl $name {
            /// Before every other instant.
            pub const MIN: $name = $name(i64::MIN);
            /// After every other instant: for what does not happen.
            pub const NEVER: $name = $name(i64::MAX);
        }

        impl Add<Micros> for $name {
            type Output = $name;
            fn add(self, length: Micros) -> $name {
                $name(self.0.saturating_add(length.0))
            }
        }

        impl Sub<Micros> for $name {
            type Output = $name;
            fn sub(self, length: Micros) -> $name {
                $name(self.0.saturating_sub(length.0))
            }
        }

        impl Sub for $name {
            type Output = Micros;
            fn sub(self, other: $name) -> Micros {
                Micros(self.0.saturating_sub(other.0))
            }
        }
    };
}

instant! {
    /// An instant on the clock that no step of the wall clock touches: microseconds since the
    /// machine started. Leases run on it (I9).
    Monotonic
}

instant! {
    /// An instant on the database's wall clock, as a `timestamptz` holds it: microseconds since
    /// 2000-01-01 UTC.
    Wall
}

impl Wall {
    /// The same instant on the monotonic clock, for an offset from `Timestamp::wall_offset`.
    pub fn on_monotonic(self, wall_offset: Micros) -> Monotonic {
        Monotonic(self.0.saturating_sub(wall_offset.0))
    }
}

/// One instant, read from both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// As leases run.
    pub monotonic: Monotonic,
    /// As users see it.
    pub wall: Wall,
}

impl Timestamp {
    /// How far the wall clock is ahead of the monotonic one.
    pub fn wall_offset(self) -> Micros {
        Micros(self.wall.0.saturating_sub(self.monotonic.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Monotonic::NEVER + Micros(1), Monotonic::NEVER);
        assert_eq!(Monotonic::MIN - Micros(1), Monotonic::MIN);
        assert_eq!(Wall::NEVER - Wall::MIN, Micros::MAX);
        assert_eq!(Micros::MAX + Micros(1), Micros::MAX);
        assert_eq!(Micros::MAX * 2, Micros::MAX);
        assert_eq!(Micros::from_days(i64::MAX), Micros::MAX);
        assert_eq!(Micros(i64::MIN) / -1, Micros::MAX);
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        let rounded =
            [-1_001, -1_000, -1, 0, 1, 999, 1_000, 1_001].map(|it| Micros(it).millis_up());
        assert_eq!(rounded, [-1, -1, 0, 0, 1, 1, 1, 2]);
        assert_eq!(Micros::MAX.millis_up(), i64::MAX / 1_000 + 1);
    }

    #[test]
    fn an_instant_is_the_same_on_both_clocks() {
        let now = Timestamp { monotonic: Monotonic(50), wall: Wall(1_050) };
        assert_eq!(now.wall_offset(), Micros(1_000));
        assert_eq!(now.wall.on_monotonic(now.wall_offset()), now.monotonic);
        assert_eq!(Wall::MIN.on_monotonic(now.wall_offset()), Monotonic::MIN);
    }
}
