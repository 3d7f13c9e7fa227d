//! A shared store that may fail, made into one that never keeps a request waiting for long.
//!
//! Each call has a deadline. A [`Breaker`](super::breaker::Breaker) counts how calls go; once it is open no request asks,
//! and a probe each second finds out when the server is back. What becomes of a charge meanwhile is its limit's choice: a limiter in the
//! process takes over with this gateway's share of the quota, the charge passes unknown, or the request is refused as
//! unanswerable, which wins over the others.
//!
//! **Several shards.** Charges of one request may lie in several slots of a Cluster. Each slot is asked in parallel and decides
//! for itself; when one refuses, what the others took is given back, and how they stand then is read for the answer. So nothing is
//! ever over-admitted, and for the moment before the give-back another request may be refused that could have passed.
//! A later correction goes where its charge was taken: to the store, or to what stood in for it.
//!
//! **The bound.** The local limiter is never cleared: what it admits in one outage counts in the next, as long as the
//! algorithm remembers, so that however often the store flaps, outages admit at most one share a window. While the store
//! answers, the local counters are raised to this gateway's share of what the store has seen, never lowered.

use super::memory::MemoryStore;
use super::shared::{Shard, Shared};
use super::{Answer, Store, StoreError};
use crate::algorithm::Wait;
use crate::algorithm::exact::mul_div_ceil;
use crate::charge::{Charge, Charges, Correction, OnError, Outcome, Reading};
use crate::metrics::Metrics;
use crate::time::{Millis, Timestamp};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often an open breaker's server is probed.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How long after a connection was made its server is probed: what was in flight on the one before has failed by then.
const PROBE_DELAY: Duration = Duration::from_millis(20);

/// How often a lasting outage is summed up in the log.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);

/// Of a charge that nobody could decide.
const UNKNOWN: Reading = Reading { known: false, stand_in: false, remaining: 0, wait: Wait::Now, reset: Millis(0) };

/// The shared store and what stands in for it.
pub struct Guarded<S> {
    shared: Arc<S>,
    local: Arc<MemoryStore>,
    timeout: Duration,
    metrics: Arc<Metrics>,
    /// Whether a breaker opened and the log has not told of its end.
    given_up: AtomicBool,
    /// Decisions made without the store since the last line in the log.
    degraded: AtomicU64,
}

/// The charges of one shard: their places among all, and what was said of them.
struct Group<'a> {
    shard: Shard,
    places: SmallVec<[usize; 8]>,
    charges: Charges<'a>,
}

impl<S: Shared> Guarded<S> {
    pub fn new(shared: Arc<S>, local: Arc<MemoryStore>, timeout: Millis, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            local,
            timeout: timeout.to_duration(),
            metrics,
            given_up: AtomicBool::new(false),
            degraded: AtomicU64::new(0),
        })
    }

    /// Whether any server is given up on for now.
    pub fn is_degraded(&self) -> bool {
        self.shared.is_degraded()
    }

    /// Probes once a second and after each new connection, and sums up a lasting outage once a minute, to the end of the process.
    pub async fn watch(self: Arc<Self>) {
        let mut since_summary = Duration::ZERO;
        loop {
            if tokio::time::timeout(PROBE_INTERVAL, self.shared.connected()).await.is_ok() {
                tokio::time::sleep(PROBE_DELAY).await;
            } else {
                since_summary += PROBE_INTERVAL;
            }
            let given_up = self.given_up.swap(false, Ordering::AcqRel);
            if !given_up && !self.shared.is_degraded() {
                since_summary = Duration::ZERO;
                continue;
            }
            // Without a breaker that is open, the server that was given up on has lost its place to another.
            let closed = !self.shared.is_degraded()
                || matches!(tokio::time::timeout(PROBE_INTERVAL, self.shared.probe()).await, Ok(true));
            let degraded = self.shared.is_degraded();
            self.given_up.fetch_or(degraded, Ordering::AcqRel);
            self.metrics.store_breaker(degraded);
            if closed {
                since_summary = Duration::ZERO;
                let decided_without_it = self.degraded.swap(0, Ordering::Relaxed);
                tracing::warn!(store = self.shared.name(), decided_without_it, "the store is back");
                continue;
            }
            if since_summary >= SUMMARY_INTERVAL {
                since_summary = Duration::ZERO;
                let decided_without_it = self.degraded.swap(0, Ordering::Relaxed);
                tracing::warn!(store = self.shared.name(), decided_without_it, "the store is still unavailable");
            }
        }
    }

    async fn decide(&self, now: Timestamp, charges: &[Charge<'_>]) -> Result<Outcome, StoreError> {
        match self.decide_groups(now, charges.len(), &self.groups(charges, false), false).await {
            Err(StoreError::Apart) => self.decide_groups(now, charges.len(), &self.groups(charges, true), true).await,
            decided => decided,
        }
    }

    async fn decide_groups(
        &self,
        now: Timestamp,
        length: usize,
        groups: &[Group<'_>],
        apart: bool,
    ) -> Result<Outcome, StoreError> {
        if let [group] = groups {
            return self.decide_group(now, group, apart).await;
        }
        let calls = groups.iter().map(|group| self.decide_group(now, group, apart));
        let mut decided = futures_util::future::join_all(calls).await;
        let admitted = decided.iter().all(|decided| decided.as_ref().is_ok_and(|outcome| outcome.admitted));
        if !admitted {
            self.give_back(now, groups, &mut decided).await;
        }
        let decided: Vec<Outcome> = decided.into_iter().collect::<Result<_, _>>()?;
        Ok(joined(length, groups, decided, admitted))
    }

    /// The charges by what one call can touch: a shard or, while a shard's keys are apart, a key.
    fn groups<'a>(&self, charges: &'a [Charge<'_>], apart: bool) -> SmallVec<[Group<'a>; 4]> {
        let mut groups: SmallVec<[Group<'a>; 4]> = SmallVec::new();
        for (place, charge) in charges.iter().enumerate() {
            let shard = self.shared.shard(charge);
            let fits = |group: &Group<'_>| {
                group.shard == shard && (!apart || self.shared.share_a_key(&group.charges[0], charge))
            };
            let group = match groups.iter().position(fits) {
                Some(found) => &mut groups[found],
                None => {
                    groups.push(Group { shard, places: SmallVec::new(), charges: Charges::new() });
                    groups.last_mut().expect("one was pushed")
                }
            };
            group.places.push(place);
            group.charges.push(charge.reborrow());
        }
        groups
    }

    async fn decide_group(&self, now: Timestamp, group: &Group<'_>, apart: bool) -> Result<Outcome, StoreError> {
        let breaker = self.shared.breaker(group.shard);
        if breaker.is_open() {
            return self.stand_in(now, &group.charges);
        }
        let call = self.shared.acquire(group.shard, now, &group.charges);
        match tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout)) {
            Ok(outcome) => {
                breaker.succeeded();
                self.learn(now, &group.charges, &outcome);
                Ok(outcome)
            }
            // Nothing was done, and the caller asks again for each key.
            Err(StoreError::Apart) if !apart => Err(StoreError::Apart),
            Err(error) => {
                self.metrics.store_failed(error.kind());
                if breaker.failed() {
                    self.given_up.store(true, Ordering::Release);
                    self.metrics.store_breaker(true);
                    tracing::error!(store = self.shared.name(), %error, "the store is unavailable, going on without it");
                }
                self.stand_in(now, &group.charges)
            }
        }
    }

    /// Raises the local counters to this gateway's share of what the store has seen.
    fn learn(&self, now: Timestamp, charges: &[Charge<'_>], outcome: &Outcome) {
        for (charge, reading) in charges.iter().zip(&outcome.readings) {
            let Some(local) = local_meter(charge) else { continue };
            let capacity = charge.meter.quota.capacity;
            let used = (capacity - reading.remaining).max(0);
            // Rounded up: what is uncertain is taken as used.
            self.local.raise(now, local, &charge.parts, mul_div_ceil(used, local.quota.capacity, capacity.max(1)));
        }
    }

    fn stand_in(&self, now: Timestamp, charges: &[Charge<'_>]) -> Result<Outcome, StoreError> {
        self.degraded.fetch_add(1, Ordering::Relaxed);
        if charges.iter().any(|charge| charge.enforced && charge.meter.on_error == OnError::Closed) {
            return Err(StoreError::Closed);
        }
        Ok(self.decide_locally(now, charges))
    }

    fn decide_locally(&self, now: Timestamp, charges: &[Charge<'_>]) -> Outcome {
        let local: Charges<'_> = charges.iter().filter_map(localised).collect();
        let outcome = self.local.decide(now, &local);
        let mut known = outcome.readings.iter();
        let reading = |charge: &Charge<'_>| match local_meter(charge) {
            Some(_) => Reading { stand_in: true, ..*known.next().expect("the local limiter answers every charge") },
            None => UNKNOWN,
        };
        let readings = charges.iter().map(reading).collect();
        Outcome { readings, degraded: true, ..outcome }
    }

    /// Gives back what groups took, since another one refused, and reads how their counters stand then.
    async fn give_back(&self, now: Timestamp, groups: &[Group<'_>], decided: &mut [Result<Outcome, StoreError>]) {
        let took = groups.iter().zip(decided).filter_map(|(group, decided)| {
            let outcome = decided.as_mut().ok().filter(|outcome| outcome.admitted)?;
            Some((group, outcome))
        });
        let calls = took.map(|(group, outcome)| async move {
            let corrections = corrections(group, outcome);
            let reading: Charges<'_> =
                group.charges.iter().map(|charge| Charge { cost: 0, enforced: false, ..charge.reborrow() }).collect();
            let mut given_back = false;
            let call = async {
                if outcome.degraded {
                    for correction in &corrections {
                        self.settle_stand_in(now, correction).await;
                    }
                    return Ok(self.decide_locally(now, &reading));
                }
                self.settle_shard(group.shard, now, &corrections).await?;
                given_back = true;
                self.shared.acquire(group.shard, now, &reading).await
            };
            let read = tokio::time::timeout(self.timeout, call).await;
            if !given_back && !outcome.degraded {
                self.metrics.store_failed("give_back");
            }
            as_they_stand(group, outcome, read.ok().and_then(Result::ok));
        });
        futures_util::future::join_all(calls).await;
    }

    async fn settle_shard(
        &self,
        shard: Shard,
        now: Timestamp,
        corrections: &[Correction<'_>],
    ) -> Result<(), StoreError> {
        match self.shared.settle(shard, now, corrections).await {
            Err(StoreError::Apart) => {}
            settled => return settled,
        }
        for correction in corrections {
            self.shared.settle(shard, now, &[correction.reborrow()]).await?;
        }
        Ok(())
    }

    /// Corrects what the local limiter took.
    async fn settle_stand_in(&self, now: Timestamp, correction: &Correction<'_>) {
        let Some(meter) = correction.meter.local.as_deref() else { return };
        // Of a cost above the share only the share was taken.
        let delta = correction.delta.max(-meter.quota.capacity);
        // The memory store never fails.
        let _ = self.local.settle(now, &[Correction { meter, delta, ..correction.reborrow() }]).resolve().await;
    }

    /// Each for itself: one that fails keeps none of the others from being made. The error is the first one.
    async fn settle_all(&self, now: Timestamp, corrections: &[Correction<'_>]) -> Result<(), StoreError> {
        let mut settled = Ok(());
        for correction in corrections {
            if correction.stand_in {
                self.settle_stand_in(now, correction).await;
            } else {
                settled = settled.and(self.settle_one(now, correction).await);
            }
        }
        settled
    }

    async fn settle_one(&self, now: Timestamp, correction: &Correction<'_>) -> Result<(), StoreError> {
        let charge = Charge {
            meter: correction.meter,
            parts: correction.parts.iter().map(crate::charge::Part::reborrow).collect(),
            cost: 0,
            enforced: false,
        };
        let shard = self.shared.shard(&charge);
        if self.shared.breaker(shard).is_open() {
            return Err(StoreError::Unavailable("its breaker is open".to_owned()));
        }
        let one = [correction.reborrow()];
        let call = self.shared.settle(shard, now, &one);
        tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout))
    }

    async fn forget_all(&self, charges: &[Charge<'_>]) -> Result<Vec<bool>, StoreError> {
        let local: Charges<'_> = charges.iter().filter_map(localised).collect();
        let _ = self.local.forget(&local).resolve().await;
        let mut existed = vec![false; charges.len()];
        match self.forget_groups(&self.groups(charges, false), &mut existed).await {
            Err(StoreError::Apart) => self.forget_groups(&self.groups(charges, true), &mut existed).await?,
            forgotten => forgotten?,
        }
        Ok(existed)
    }

    async fn forget_groups(&self, groups: &[Group<'_>], existed: &mut [bool]) -> Result<(), StoreError> {
        for group in groups {
            let call = self.shared.forget(group.shard, &group.charges);
            let found = tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout))?;
            for (place, found) in group.places.iter().zip(found) {
                existed[*place] |= found;
            }
        }
        Ok(())
    }
}

/// The meter of the local limiter, where it takes over.
fn local_meter<'a>(charge: &Charge<'a>) -> Option<&'a crate::charge::Meter> {
    charge.meter.local.as_deref().filter(|_| charge.meter.on_error == OnError::Local)
}

/// The charge as the local limiter gets it. A cost above the share is as much as the share can hold: the request passes
/// when nothing else is in the way.
fn localised<'a>(charge: &'a Charge<'_>) -> Option<Charge<'a>> {
    let meter = local_meter(charge)?;
    let cost = charge.cost.min(meter.quota.capacity);
    Some(Charge { meter, cost, ..charge.reborrow() })
}

/// What gives back what a group took.
fn corrections<'a>(group: &'a Group<'_>, outcome: &Outcome) -> SmallVec<[Correction<'a>; 8]> {
    let taken = group.charges.iter().zip(&outcome.readings);
    let taken = taken.filter(|(charge, reading)| reading.known && reading.wait == Wait::Now && charge.cost > 0);
    let correction = |(charge, reading): (&'a Charge<'_>, &Reading)| {
        let Charge { meter, parts, cost, .. } = charge.reborrow();
        Correction { meter, parts, at: outcome.at, delta: -cost, stand_in: reading.stand_in }
    };
    taken.map(correction).collect()
}

/// Puts what is left after a give-back in the place of what was left before it: as it was read or, without an answer, as it
/// should be.
fn as_they_stand(group: &Group<'_>, outcome: &mut Outcome, read: Option<Outcome>) {
    for (index, (charge, reading)) in group.charges.iter().zip(&mut outcome.readings).enumerate() {
        match read.as_ref().map(|read| read.readings[index]) {
            Some(Reading { known: true, remaining, reset, .. }) => {
                (reading.remaining, reading.reset) = (remaining, reset)
            }
            _ if reading.known && reading.wait == Wait::Now => {
                reading.remaining = (reading.remaining + charge.cost).min(charge.meter.quota.capacity);
            }
            _ => {}
        }
    }
}

/// The answers of all groups as one, in the order of the charges.
fn joined(length: usize, groups: &[Group<'_>], decided: Vec<Outcome>, admitted: bool) -> Outcome {
    let mut readings: SmallVec<_> = smallvec::smallvec![UNKNOWN; length];
    let (mut at, mut delay, mut degraded) = (Timestamp(i64::MIN), Millis(0), false);
    for (group, outcome) in groups.iter().zip(decided) {
        at = at.max(outcome.at);
        delay = delay.max(outcome.delay);
        degraded |= outcome.degraded;
        for (place, reading) in group.places.iter().zip(outcome.readings) {
            readings[*place] = reading;
        }
    }
    Outcome { admitted, at, delay: if admitted { delay } else { Millis(0) }, degraded, readings }
}

impl<S: Shared> Store for Guarded<S> {
    fn name(&self) -> &'static str {
        self.shared.name()
    }

    fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>> {
        Answer::Later(Box::pin(self.decide(now, charges)))
    }

    fn settle<'a>(&'a self, now: Timestamp, corrections: &'a [Correction<'_>]) -> Answer<'a, Result<(), StoreError>> {
        Answer::Later(Box::pin(self.settle_all(now, corrections)))
    }

    fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>> {
        Answer::Later(Box::pin(self.forget_all(charges)))
    }

    fn entries(&self) -> Option<u64> {
        self.local.entries()
    }
}
