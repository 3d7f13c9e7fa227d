//! A shared store that may fail, made into one that never keeps a request waiting for long.
//!
//! Each call has a deadline. A [`Breaker`](super::breaker::Breaker) counts how calls go; once it is open no request asks,
//! and a probe each second finds out when the server is back. What becomes of a charge meanwhile is its limit's choice: a limiter in the
//! process takes over with this gateway's share of the quota, the charge passes unknown, or the request is refused as
//! unanswerable, which wins over the others.
//!
//! **Several shards.** Charges of one request may lie in several slots of a Cluster. Each slot is asked in parallel and decides
//! for itself; when one refuses, what the others took is given back. So nothing is ever over-admitted, and for the moment before
//! the give-back another request may be refused that could have passed.
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

/// How a group was decided.
struct Decided {
    outcome: Outcome,
    /// Whether the shared store decided, and not its stand-in.
    by_store: bool,
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
            return self.decide_group(now, group, apart).await.map(|decided| decided.outcome);
        }
        let calls = groups.iter().map(|group| self.decide_group(now, group, apart));
        let decided = futures_util::future::join_all(calls).await;
        let admitted = decided.iter().all(|decided| decided.as_ref().is_ok_and(|decided| decided.outcome.admitted));
        if !admitted {
            self.give_back(now, groups, &decided).await;
        }
        let decided: Vec<Decided> = decided.into_iter().collect::<Result<_, _>>()?;
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

    async fn decide_group(&self, now: Timestamp, group: &Group<'_>, apart: bool) -> Result<Decided, StoreError> {
        let breaker = self.shared.breaker(group.shard);
        if breaker.is_open() {
            return self.stand_in(now, &group.charges);
        }
        let call = self.shared.acquire(group.shard, now, &group.charges);
        match tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout)) {
            Ok(outcome) => {
                breaker.succeeded();
                self.learn(now, &group.charges, &outcome);
                Ok(Decided { outcome, by_store: true })
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

    fn stand_in(&self, now: Timestamp, charges: &[Charge<'_>]) -> Result<Decided, StoreError> {
        self.degraded.fetch_add(1, Ordering::Relaxed);
        if charges.iter().any(|charge| charge.enforced && charge.meter.on_error == OnError::Closed) {
            return Err(StoreError::Closed);
        }
        let local: Charges<'_> = charges.iter().filter_map(localised).collect();
        let outcome = self.local.decide(now, &local);
        let mut known = outcome.readings.iter();
        let reading = |charge: &Charge<'_>| match local_meter(charge) {
            Some(_) => *known.next().expect("the local limiter answers every charge"),
            None => Reading { known: false, remaining: 0, wait: Wait::Now, reset: Millis(0) },
        };
        let readings = charges.iter().map(reading).collect();
        Ok(Decided { outcome: Outcome { readings, degraded: true, ..outcome }, by_store: false })
    }

    /// Gives back what groups took, since another one refused.
    async fn give_back(&self, now: Timestamp, groups: &[Group<'_>], decided: &[Result<Decided, StoreError>]) {
        let took = groups.iter().zip(decided).filter_map(|(group, decided)| {
            let decided = decided.as_ref().ok().filter(|decided| decided.outcome.admitted)?;
            Some((group, decided))
        });
        let calls = took.map(|(group, decided)| async move {
            let corrections: SmallVec<[Correction<'_>; 8]> = corrections(group, decided).collect();
            if !decided.by_store {
                // The memory store never fails.
                let _ = self.local.settle(now, &corrections).resolve().await;
                return;
            }
            let call = self.settle_shard(group.shard, now, &corrections);
            if !matches!(tokio::time::timeout(self.timeout, call).await, Ok(Ok(()))) {
                self.metrics.store_failed("give_back");
            }
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

    async fn settle_all(&self, now: Timestamp, corrections: &[Correction<'_>]) -> Result<(), StoreError> {
        for correction in corrections {
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
            tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout))?;
        }
        Ok(())
    }

    async fn forget_all(&self, charges: &[Charge<'_>]) -> Result<Vec<bool>, StoreError> {
        let local: Charges<'_> = charges.iter().filter_map(localised).collect();
        let _ = self.local.forget(&local).resolve().await;
        let mut existed = vec![false; charges.len()];
        for group in &self.groups(charges, false) {
            let call = self.shared.forget(group.shard, &group.charges);
            let found = tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(StoreError::Timeout))?;
            for (place, found) in group.places.iter().zip(found) {
                existed[*place] = found;
            }
        }
        Ok(existed)
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

fn corrections<'a>(group: &'a Group<'_>, decided: &'a Decided) -> impl Iterator<Item = Correction<'a>> {
    let taken = group.charges.iter().zip(&decided.outcome.readings);
    let taken = taken.filter(|(charge, reading)| reading.known && reading.wait == Wait::Now && charge.cost > 0);
    taken.filter_map(|(charge, _)| {
        let charge = if decided.by_store { charge.reborrow() } else { localised(charge)? };
        Some(Correction { meter: charge.meter, parts: charge.parts, at: decided.outcome.at, delta: -charge.cost })
    })
}

/// The answers of all groups as one, in the order of the charges.
fn joined(length: usize, groups: &[Group<'_>], decided: Vec<Decided>, admitted: bool) -> Outcome {
    let unknown = Reading { known: false, remaining: 0, wait: Wait::Now, reset: Millis(0) };
    let mut readings: SmallVec<_> = smallvec::smallvec![unknown; length];
    let (mut at, mut delay, mut degraded) = (Timestamp(i64::MIN), Millis(0), false);
    for (group, decided) in groups.iter().zip(decided) {
        let outcome = decided.outcome;
        at = at.max(outcome.at);
        delay = delay.max(outcome.delay);
        degraded |= outcome.degraded;
        let gave_back = outcome.admitted && !admitted;
        for ((place, charge), mut reading) in group.places.iter().zip(&group.charges).zip(outcome.readings) {
            if gave_back && reading.known && reading.wait == Wait::Now {
                reading.remaining = (reading.remaining + charge.cost).min(charge.meter.quota.capacity);
            }
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
