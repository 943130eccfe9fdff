//! When things happen again: the pauses before retries. Pure: times come in as arguments.

use crate::time::Micros;

/// No retry waits longer (365 days).
pub const LONGEST: Micros = Micros::from_days(365);

/// How long a task pauses before it is tried again: `interval × 2^n + random(0..jitter)`, n = 0 for
/// the first retry. Without the jitter a pause is no longer than `cap`, or `interval` where that
/// is longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// The pause before the first retry; it doubles with each further one.
    pub interval: Micros,
    /// The most that is added by chance.
    pub jitter: Micros,
    /// Zero: none but `LONGEST`.
    pub cap: Micros,
}

impl Backoff {
    /// The pause before retry `n`, with a random number from 0 to 1.
    pub fn pause(&self, n: u32, random: f64) -> Micros {
        let first = self.interval.max(Micros::ZERO);
        let cap = if self.cap > Micros::ZERO { self.cap.max(first) } else { LONGEST };
        let interval = (first * 2_i64.saturating_pow(n)).min(cap).min(LONGEST);
        let jitter = self.jitter.clamp(Micros::ZERO, LONGEST).0 as f64 * random.clamp(0.0, 1.0);
        (interval + Micros(jitter as i64)).min(LONGEST)
    }

    /// All pauses of so many retries, each as long as it can be; `None`: longer than can be told.
    pub fn worst_case(&self, retries: u32) -> Option<Micros> {
        // From here on the interval is zero, or each pause is the longest.
        const LEVEL: u32 = 64;
        let rising: i128 = (0..retries.min(LEVEL)).map(|n| i128::from(self.pause(n, 1.0).0)).sum();
        let level =
            i128::from(self.pause(LEVEL, 1.0).0) * i128::from(retries.saturating_sub(LEVEL));
        (rising + level).try_into().ok().map(Micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const YEAR: i64 = LONGEST.0;

    /// A backoff in plain numbers.
    struct Plain(Backoff);

    impl Plain {
        fn pause(&self, n: u32, random: f64) -> i64 {
            self.0.pause(n, random).0
        }
        fn worst_case(&self, retries: u32) -> Option<i64> {
            self.0.worst_case(retries).map(|it| it.0)
        }
    }

    fn backoff(interval: i64, jitter: i64) -> Plain {
        capped(interval, jitter, 0)
    }

    fn capped(interval: i64, jitter: i64, cap: i64) -> Plain {
        Plain(Backoff { interval: Micros(interval), jitter: Micros(jitter), cap: Micros(cap) })
    }

    /// B95, B96
    #[test]
    fn the_interval_doubles_and_the_jitter_does_not() {
        let backoff = backoff(200_000, 500_000);
        let pauses = |random| [0, 1, 2].map(|n| backoff.pause(n, random));
        assert_eq!(pauses(0.0), [200_000, 400_000, 800_000]);
        assert_eq!(pauses(0.5), [450_000, 650_000, 1_050_000]);
        assert_eq!(pauses(1.0), [700_000, 900_000, 1_300_000]);
        assert_eq!(backoff.worst_case(3), Some(2_900_000));
        assert_eq!(backoff.worst_case(1), Some(700_000));
    }

    /// B98
    #[test]
    fn without_retries_there_is_no_pause() {
        assert_eq!(backoff(i64::MAX, i64::MAX).worst_case(0), Some(0));
        assert_eq!(backoff(0, 0).worst_case(u32::MAX), Some(0));
    }

    #[test]
    fn no_pause_is_longer_than_a_year() {
        assert_eq!(backoff(SECOND, 0).pause(24, 0.0), (1 << 24) * SECOND);
        assert_eq!(backoff(SECOND, 0).pause(25, 0.0), YEAR);
        for huge in [1, SECOND, YEAR, YEAR + 1, i64::MAX] {
            for n in [62, 63, 64, 1_000, u32::MAX] {
                assert_eq!(backoff(huge, 0).pause(n, 1.0), YEAR);
                assert_eq!(backoff(huge, i64::MAX).pause(n, 1.0), YEAR);
            }
        }
        assert_eq!(backoff(0, i64::MAX).pause(0, 1.0), YEAR);
        assert_eq!(backoff(0, i64::MAX).pause(0, 0.0), 0);
        assert_eq!(backoff(0, 10).pause(u32::MAX, f64::NAN), 0);
    }

    #[test]
    fn a_cap_stops_the_doubling_and_is_never_below_the_interval() {
        let pauses = |backoff: &Plain| [0, 1, 2, 3, 60].map(|n| backoff.pause(n, 1.0));
        assert_eq!(pauses(&capped(10, 0, 35)), [10, 20, 35, 35, 35]);
        assert_eq!(pauses(&capped(10, 5, 35)), [15, 25, 40, 40, 40]);
        assert_eq!(pauses(&capped(50, 0, 35)), [50; 5]);
        assert_eq!(pauses(&capped(0, 0, 35)), [0; 5]);
        assert_eq!(capped(10, 5, 35).worst_case(4), Some(15 + 25 + 40 + 40));
        assert_eq!(capped(10, 0, 35).worst_case(1_000), Some(10 + 20 + 998 * 35));
    }

    #[test]
    fn a_sum_that_cannot_be_told_is_not_told_wrong() {
        assert_eq!(backoff(YEAR, 0).worst_case(292_000), Some(292_000 * YEAR));
        assert_eq!(backoff(i64::MAX, i64::MAX).worst_case(u32::MAX), None);
        assert_eq!(backoff(0, 7).worst_case(1_000_000), Some(7_000_000));
        let doubled: i64 = (0..45).map(|n| (1_i64 << n).min(YEAR)).sum();
        assert_eq!(backoff(1, 0).worst_case(100), Some(doubled + 55 * YEAR));
    }
}
