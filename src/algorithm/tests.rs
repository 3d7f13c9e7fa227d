//! What must hold for every algorithm of [`super::ALGORITHMS`], and the faults that others shipped.

mod cases;
mod properties;

use super::*;

/// One counter and its arithmetic, driven as a store would.
#[derive(Clone)]
struct Counter {
    algorithm: &'static dyn Algorithm,
    quota: Quota,
    state: State,
}

impl Counter {
    fn new(name: &str, count: i64, window_ms: i64) -> Self {
        let quota = quota(count * UNIT, Window::Span(Millis(window_ms)));
        Self::of(by_name(name).expect("a known algorithm"), quota)
    }

    fn of(algorithm: &'static dyn Algorithm, quota: Quota) -> Self {
        algorithm.check(&quota).expect("a quota that the algorithm can serve");
        Self { algorithm, quota, state: State::FRESH }
    }

    fn capacity(mut self, capacity: i64) -> Self {
        self.quota.capacity = capacity * UNIT;
        self.algorithm.check(&self.quota).expect("a capacity that the algorithm can serve");
        self
    }

    /// As a reload does: the count of a limit changes, its state does not; a default capacity follows.
    fn recount(&mut self, count: i64) {
        self.quota = Quota { count: count * UNIT, capacity: count * UNIT, ..self.quota };
    }

    fn remaining(&self, now: i64) -> Units {
        self.algorithm.remaining(&self.quota, &self.state, Timestamp(now))
    }

    fn wait(&self, now: i64, cost: Units) -> Wait {
        self.algorithm.wait(&self.quota, &self.state, Timestamp(now), cost)
    }

    fn fits(&self, now: i64, cost: Units) -> bool {
        self.wait(now, cost) == Wait::Now
    }

    fn wait_ms(&self, now: i64, cost: Units) -> i64 {
        match self.wait(now, cost) {
            Wait::Now => 0,
            Wait::After(wait) => wait.0,
            Wait::Never => panic!("{cost} units never fit"),
        }
    }

    fn delay(&self, now: i64) -> i64 {
        self.algorithm.delay(&self.quota, &self.state, Timestamp(now)).0
    }

    fn reset(&self, now: i64) -> i64 {
        self.algorithm.reset(&self.quota, &self.state, Timestamp(now)).0
    }

    fn fresh_at(&self, now: i64) -> i64 {
        self.algorithm.fresh_at(&self.quota, &self.state, Timestamp(now)).0
    }

    fn charge(&mut self, now: i64, cost: Units) {
        let delay = self.delay(now);
        self.algorithm.charge(&self.quota, &mut self.state, Timestamp(now), cost, Millis(delay));
    }

    fn debit(&mut self, now: i64, at: i64, cost: Units) {
        self.algorithm.debit(&self.quota, &mut self.state, Timestamp(now), Timestamp(at), cost);
    }

    fn refund(&mut self, now: i64, at: i64, cost: Units) {
        self.algorithm.refund(&self.quota, &mut self.state, Timestamp(now), Timestamp(at), cost);
    }

    /// Charges the cost if it fits.
    fn take(&mut self, now: i64, cost: Units) -> bool {
        let fits = self.fits(now, cost);
        if fits {
            self.charge(now, cost);
        }
        fits
    }

    /// Requests of cost 1 that pass, of so many at one instant.
    fn burst(&mut self, now: i64, requests: usize) -> usize {
        (0..requests).filter(|_| self.take(now, UNIT)).count()
    }
}

fn quota(count: Units, window: Window) -> Quota {
    Quota { count, window, capacity: count, max_wait: None }
}

/// One counter of each algorithm.
fn each(count: i64, window_ms: i64) -> impl Iterator<Item = Counter> {
    ALGORITHMS.iter().map(move |algorithm| Counter::new(algorithm.name(), count, window_ms))
}
