//! Instants and spans, and the only place that reads a clock.
//!
//! Everything that decides gets its time as a [`Timestamp`]; only the rim asks a [`Clock`]. The clock is
//! monotonic, set from the wall clock once at start, so that a step of the wall clock neither grants quota nor
//! blocks a caller. [`Clock::wall`] exists for the `Date` of a response alone and never reaches a decision.

#![expect(clippy::disallowed_methods, reason = "the one file that reads the clock")]

use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A span in whole milliseconds. Negative spans occur only as differences of instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// An instant: milliseconds since the Unix epoch, UTC, leap seconds ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Millis {
    /// A span of whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1000)
    }

    /// Whole seconds, rounded up; a span that is not positive is 0. Defined for every span.
    pub const fn seconds_up(self) -> i64 {
        if self.0 <= 0 { 0 } else { (self.0 - 1) / 1000 + 1 }
    }

    /// For timers; a negative span is no wait.
    pub fn to_duration(self) -> Duration {
        Duration::from_millis(self.0.max(0).unsigned_abs())
    }
}

impl Timestamp {
    /// Seconds since the epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;
    fn sub(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// The process's clock: monotonic, anchored to the wall clock when it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    anchor: Timestamp,
}

impl Clock {
    /// Reads the wall clock once; every later reading is monotonic.
    pub fn start() -> Self {
        Self { started: Instant::now(), anchor: Self::wall() }
    }

    /// Goes on from that instant, unless the wall clock is ahead of it: counters that were taken over from another
    /// process then see no step back.
    pub fn start_at_least(instant: Timestamp) -> Self {
        Self { started: Instant::now(), anchor: Self::wall().max(instant) }
    }

    /// The instant that decisions use.
    pub fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.anchor + Millis(elapsed)
    }

    /// The instant of a request, and the stopwatch of how long it takes: one reading for both.
    pub fn start_of_request(&self) -> (Timestamp, Stopwatch) {
        let started = Instant::now();
        let elapsed = started.saturating_duration_since(self.started).as_millis();
        (self.anchor + Millis(i64::try_from(elapsed).unwrap_or(i64::MAX)), Stopwatch(started))
    }

    /// The wall clock, for the `Date` of a response and for logs; never for a decision.
    pub fn wall() -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Measures how long something took, for logs and metrics.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_never_negative() {
        let vectors = [(-5, 0), (0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (i64::MAX, i64::MAX / 1000 + 1)];
        for (millis, seconds) in vectors {
            assert_eq!(Millis(millis).seconds_up(), seconds, "{millis} ms");
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
