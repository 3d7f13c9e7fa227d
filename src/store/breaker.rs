//! When to stop asking a store that does not answer, and when to start again.
//!
//! A breaker opens after [`CONSECUTIVE_FAILURES`] in a row, or when half of the last [`WINDOW_CALLS`] calls failed. While it is
//! open nobody asks: a request costs nothing, however dead the store is. A probe, not a request, finds out when it is
//! back. Pure but for its lock: time and probing are its owner's.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Failures in a row that open it.
pub const CONSECUTIVE_FAILURES: u32 = 5;

/// Calls that are looked back on.
pub const WINDOW_CALLS: u32 = 20;

/// Counts how calls went.
#[derive(Debug, Default)]
pub struct Breaker {
    open: AtomicBool,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    in_a_row: u32,
    /// The last calls, the newest in the lowest bit; 1 is a failure.
    history: u32,
    /// How many of the history's bits count.
    known: u32,
}

impl Calls {
    fn push(&mut self, failed: bool) {
        self.in_a_row = if failed { self.in_a_row + 1 } else { 0 };
        self.history = (self.history << 1 | u32::from(failed)) & ((1 << WINDOW_CALLS) - 1);
        self.known = (self.known + 1).min(WINDOW_CALLS);
    }

    fn too_many(&self) -> bool {
        let half_failed = self.known == WINDOW_CALLS && self.history.count_ones() * 2 >= WINDOW_CALLS;
        self.in_a_row >= CONSECUTIVE_FAILURES || half_failed
    }
}

impl Breaker {
    /// Whether nobody should ask.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// A call was answered. While the breaker is open this changes nothing: a late answer is not a probe.
    pub fn succeeded(&self) {
        self.calls.lock().push(false);
    }

    /// A call failed or was not answered in time; true when this opened the breaker.
    pub fn failed(&self) -> bool {
        let mut calls = self.calls.lock();
        calls.push(true);
        calls.too_many() && !self.open.swap(true, Ordering::AcqRel)
    }

    /// A probe was answered: all is forgotten; true when this closed the breaker.
    pub fn probe_succeeded(&self) -> bool {
        *self.calls.lock() = Calls::default();
        self.open.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_open_it_and_a_probe_closes_it() {
        let breaker = Breaker::default();
        assert_eq!([(); 4].map(|()| breaker.failed()), [false; 4]);
        assert!(!breaker.is_open());
        assert!(breaker.failed() && breaker.is_open());
        assert!(!breaker.failed(), "it opens once");
        breaker.succeeded();
        assert!(breaker.is_open(), "a late answer is not a probe");
        assert!(breaker.probe_succeeded() && !breaker.is_open());
        assert!(!breaker.failed(), "what was before is forgotten");
    }

    #[test]
    fn half_of_the_last_twenty_open_it() {
        let breaker = Breaker::default();
        let opened: Vec<bool> = (0..20)
            .map(|call| {
                if call % 2 == 0 {
                    breaker.succeeded();
                    false
                } else {
                    breaker.failed()
                }
            })
            .collect();
        assert_eq!(opened.iter().position(|opened| *opened), Some(19));
    }

    #[test]
    fn fewer_than_half_of_the_last_twenty_do_not() {
        let breaker = Breaker::default();
        for call in 0..200 {
            if call % 3 == 0 {
                assert!(!breaker.failed());
            } else {
                breaker.succeeded();
            }
        }
    }
}
