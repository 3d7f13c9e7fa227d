//! Refusals remembered: a caller that the shared store has just refused is refused here until its wait is over, without asking.
//!
//! What is remembered is the whole answer to one set of charges, so every algorithm and every mix of limits is served alike. An
//! answer is used until the longest wait in it is over, and never longer than [`LONGEST`], since a refund, a reset or another
//! gateway's reload may free the caller earlier. What this gateway gives back or forgets itself ends every remembered answer
//! at once; a changed quota makes another set of charges. Only refusals are remembered, so nothing is ever admitted here.

use super::memory::Secret;
use super::{Answer, Store, StoreError};
use crate::algorithm::Wait;
use crate::charge::{Charge, Correction, Outcome};
use crate::metrics::Metrics;
use crate::time::{Millis, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest time for which a refusal is remembered.
const LONGEST: Millis = Millis(1000);

/// Refusals remembered at once; beyond it the rest is asked for again.
const MAX_REFUSALS: usize = 65_536;

/// Remembers the refusals of a store.
pub struct DenyCache {
    inner: Arc<dyn Store>,
    secret: Secret,
    refusals: Mutex<HashMap<u128, Refusal>>,
    /// What was remembered in an earlier one is void.
    epoch: AtomicU64,
    metrics: Arc<Metrics>,
}

struct Refusal {
    since: Timestamp,
    until: Timestamp,
    epoch: u64,
    outcome: Outcome,
}

impl DenyCache {
    pub fn new(inner: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        let refusals = Mutex::default();
        Self { inner, secret: Secret::random(), refusals, epoch: AtomicU64::new(0), metrics }
    }

    fn remembered(&self, key: u128, now: Timestamp) -> Option<Outcome> {
        let refusals = self.refusals.lock();
        let refusal = refusals.get(&key)?;
        let holds =
            (refusal.since..refusal.until).contains(&now) && refusal.epoch == self.epoch.load(Ordering::Acquire);
        holds.then(|| refusal.outcome_at(now))
    }

    fn remember(&self, key: u128, now: Timestamp, epoch: u64, outcome: &Outcome) {
        if outcome.admitted || outcome.degraded {
            return;
        }
        let longest = outcome.readings.iter().map(|reading| span(reading.wait)).max().unwrap_or_default();
        let until = now + longest.min(LONGEST);
        let mut refusals = self.refusals.lock();
        if refusals.len() >= MAX_REFUSALS {
            refusals.retain(|_, refusal| now < refusal.until);
        }
        if refusals.len() < MAX_REFUSALS {
            refusals.insert(key, Refusal { since: now, until, epoch, outcome: outcome.clone() });
        }
    }

    async fn ask(&self, key: u128, now: Timestamp, charges: &[Charge<'_>]) -> Result<Outcome, StoreError> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let outcome = self.inner.acquire(now, charges).resolve().await?;
        self.remember(key, now, epoch, &outcome);
        Ok(outcome)
    }
}

/// How long a wait lasts; what never fits is as long as any.
fn span(wait: Wait) -> Millis {
    match wait {
        Wait::Now => Millis(0),
        Wait::After(span) => span,
        Wait::Never => LONGEST,
    }
}

impl Refusal {
    /// The answer as it would be by now: every span shorter by the time that has passed.
    fn outcome_at(&self, now: Timestamp) -> Outcome {
        let passed = now - self.since;
        let mut outcome = self.outcome.clone();
        outcome.at = outcome.at + passed;
        for reading in &mut outcome.readings {
            reading.reset = Millis((reading.reset.0 - passed.0).max(0));
            if let Wait::After(span) = reading.wait {
                let left = span.0 - passed.0;
                reading.wait = if left > 0 { Wait::After(Millis(left)) } else { Wait::Now };
            }
        }
        outcome
    }
}

impl Store for DenyCache {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>> {
        let key = self.secret.set_of(charges);
        if let Some(outcome) = self.remembered(key, now) {
            self.metrics.refusal_remembered();
            return Answer::Ready(Ok(outcome));
        }
        Answer::Later(Box::pin(self.ask(key, now, charges)))
    }

    fn settle<'a>(&'a self, now: Timestamp, corrections: &'a [Correction<'_>]) -> Answer<'a, Result<(), StoreError>> {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.inner.settle(now, corrections)
    }

    fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>> {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        Answer::Later(Box::pin(async move {
            let forgotten = self.inner.forget(charges).resolve().await;
            // An answer that came between the two may be older than what was forgotten.
            self.epoch.fetch_add(1, Ordering::AcqRel);
            forgotten
        }))
    }

    fn entries(&self) -> Option<u64> {
        self.inner.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryStore;
    use super::*;
    use crate::algorithm::{ALGORITHMS, Algorithm, Quota, UNIT, Window};
    use crate::charge::{Meter, Part};
    use std::sync::atomic::AtomicUsize;

    /// Counts how often it is asked.
    struct Counted {
        store: MemoryStore,
        asked: AtomicUsize,
    }

    impl Store for Counted {
        fn name(&self) -> &'static str {
            "counted"
        }

        fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            // Later, as a store that is asked over a network answers.
            Answer::Later(Box::pin(async move { Ok(self.store.decide(now, charges)) }))
        }

        fn settle<'a>(
            &'a self,
            now: Timestamp,
            corrections: &'a [Correction<'_>],
        ) -> Answer<'a, Result<(), StoreError>> {
            self.store.settle(now, corrections)
        }

        fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>> {
            self.store.forget(charges)
        }

        fn entries(&self) -> Option<u64> {
            self.store.entries()
        }
    }

    const START: i64 = 1_796_095_500_000;

    struct Scene {
        counted: Arc<Counted>,
        cache: DenyCache,
        runtime: tokio::runtime::Runtime,
    }

    impl Scene {
        fn new() -> Self {
            let counted = Arc::new(Counted { store: MemoryStore::new(100), asked: AtomicUsize::new(0) });
            let cache = DenyCache::new(counted.clone(), Arc::new(Metrics::new()));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            Self { counted, cache, runtime }
        }

        fn ask(&self, meter: &Meter, at_ms: i64, caller: &[u8]) -> Outcome {
            let parts = [Part::Named("consumer", caller)].into_iter().collect();
            let charges = [Charge { meter, parts, cost: UNIT, enforced: true }];
            self.runtime.block_on(self.cache.acquire(Timestamp(START + at_ms), &charges).resolve()).unwrap()
        }

        fn asked(&self) -> usize {
            self.counted.asked.load(Ordering::Relaxed)
        }
    }

    fn meter(algorithm: &'static dyn Algorithm, window_ms: i64) -> Meter {
        let (count, capacity) = (2 * UNIT, 2 * UNIT);
        let quota = Quota { count, window: Window::Span(Millis(window_ms)), capacity, max_wait: None };
        Meter::alone("limit", algorithm, quota)
    }

    #[test]
    fn a_refusal_is_repeated_with_an_honest_wait_until_it_is_over_and_then_asked_again() {
        for algorithm in ALGORITHMS {
            let (scene, meter) = (Scene::new(), meter(*algorithm, 600));
            assert!((0..2).all(|_| scene.ask(&meter, 0, b"a").admitted));
            let Wait::After(wait) = scene.ask(&meter, 0, b"a").readings[0].wait else { panic!("refused") };
            let asked = scene.asked();
            for passed in [1, 5, wait.0.min(LONGEST.0) - 1] {
                let again = scene.ask(&meter, passed, b"a");
                let expected = Wait::After(Millis(wait.0 - passed));
                assert!(!again.admitted && again.readings[0].wait == expected, "{algorithm:?} after {passed} ms");
            }
            assert_eq!(scene.asked(), asked, "{algorithm:?}");
            assert!(scene.ask(&meter, wait.0, b"a").admitted, "{algorithm:?} admits after {wait:?}");
        }
    }

    #[test]
    fn it_is_never_repeated_for_longer_than_a_second_nor_for_anybody_else() {
        let (scene, meter) = (Scene::new(), meter(ALGORITHMS[0], 3_600_000));
        (0..3).for_each(|_| drop(scene.ask(&meter, 0, b"a")));
        assert!(scene.ask(&meter, 0, b"b").admitted);
        let asked = scene.asked();
        scene.ask(&meter, 999, b"a");
        assert_eq!(scene.asked(), asked);
        scene.ask(&meter, 1000, b"a");
        assert_eq!(scene.asked(), asked + 1);
    }

    #[test]
    fn a_changed_quota_or_a_give_back_is_asked_about_at_once() {
        let (scene, mut meter) = (Scene::new(), meter(ALGORITHMS[0], 3_600_000));
        (0..3).for_each(|_| drop(scene.ask(&meter, 0, b"a")));
        let correction = Correction {
            meter: &meter,
            parts: [Part::Named("consumer", b"a")].into_iter().collect(),
            at: Timestamp(START),
            delta: -UNIT,
            stand_in: false,
        };
        scene.runtime.block_on(scene.cache.settle(Timestamp(START), &[correction]).resolve()).unwrap();
        assert!(scene.ask(&meter, 1, b"a").admitted);
        assert!(!scene.ask(&meter, 1, b"a").admitted);
        meter.quota.count = 5 * UNIT;
        assert!(scene.ask(&meter, 2, b"a").admitted);
    }

    #[test]
    fn a_refusal_that_is_read_while_its_counter_is_being_forgotten_is_not_repeated_after_it() {
        let (scene, meter) = (Scene::new(), meter(ALGORITHMS[0], 3_600_000));
        (0..3).for_each(|_| drop(scene.ask(&meter, 0, b"a")));
        let parts = [Part::Named("consumer", &b"a"[..])].into_iter().collect();
        let charges = [Charge { meter: &meter, parts, cost: 0, enforced: false }];
        let under_way = scene.cache.forget(&charges);
        assert!(!scene.ask(&meter, 1, b"a").admitted, "the store has not forgotten yet");
        assert_eq!(scene.runtime.block_on(under_way.resolve()).unwrap(), [true]);
        assert!(scene.ask(&meter, 2, b"a").admitted);
    }

    #[test]
    fn no_more_than_the_bound_is_remembered() {
        let (scene, meter) = (Scene::new(), meter(ALGORITHMS[0], 3_600_000));
        let outcome = {
            (0..2).for_each(|_| drop(scene.ask(&meter, 0, b"a")));
            scene.ask(&meter, 0, b"a")
        };
        for key in 0..MAX_REFUSALS as u128 + 10 {
            scene.cache.remember(key, Timestamp(START), 0, &outcome);
        }
        assert_eq!(scene.cache.refusals.lock().len(), MAX_REFUSALS);
    }
}
