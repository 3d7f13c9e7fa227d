//! Counters in this process: sharded tables under short locks, so that a decision takes well under a microsecond and
//! never waits for I/O.
//!
//! All-or-nothing: a request's counters are digested to keys, the shards they fall into are locked in ascending
//! order, every charge is tested, and only if all enforced ones fit is anything written. Ascending order rules out
//! deadlock, and no lock is ever held across an await or a log line. Counters are bounded by `max_entries` (a sliding
//! log counts as one, whatever it holds: at most [`crate::algorithm::MAX_LOG_COUNT`] entries of 16 bytes). A refusal
//! writes nothing, so refused strangers take no memory.

pub(super) mod handover;
mod key;
mod shard;
pub mod snapshot;
#[cfg(test)]
mod tests;

use super::{Answer, Store, StoreError};
use crate::algorithm::{State, Units, Wait};
use crate::charge::{Charge, Correction, INLINE_CHARGES, Meter, Outcome, Part, Reading};
use crate::time::{Millis, Timestamp};
use key::Key;
pub(super) use key::Secret;
use parking_lot::{Mutex, MutexGuard};
use shard::Shard;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most shards: enough that threads seldom meet, few enough that each is worth its table.
const MAX_SHARDS: usize = 256;
/// A small store has fewer shards, so that evictions have something to choose from in each.
const MIN_ENTRIES_PER_SHARD: usize = 64;
/// Evictions that one new counter may cause. Two, so that a store that is over its bound shrinks back to it.
const EVICTIONS_A_COUNTER: usize = 2;

/// Places to sweep on each tick of 100 ms: a full store of a million counters is gone round in some three seconds,
/// and a lock is held for well under a millisecond.
pub const SWEEP_BUDGET: usize = 65_536;

type Inline<T> = SmallVec<[T; INLINE_CHARGES]>;

/// Alone on its cache lines: neighbours are locked by other threads.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

/// Where the next sweep goes on.
#[derive(Clone, Copy, Default)]
struct Cursor {
    shard: usize,
    place: usize,
}

/// Keeps counters in this process.
pub struct MemoryStore {
    secret: Secret,
    shards: Box<[Padded]>,
    max_entries: u64,
    entries: AtomicU64,
    evictions: AtomicU64,
    cursor: Mutex<Cursor>,
}

/// The shards that a request touches, locked.
struct Held<'a> {
    /// Ascending by index.
    guards: Inline<(usize, MutexGuard<'a, Shard>)>,
}

impl Held<'_> {
    fn shard(&mut self, index: usize) -> &mut Shard {
        let held = self.guards.iter_mut().find(|(held, _)| *held == index);
        held.map(|(_, guard)| &mut **guard).expect("every key's shard was locked before")
    }
}

impl MemoryStore {
    /// A store of at most `max_entries` counters, at least 1.
    pub fn new(max_entries: usize) -> Self {
        Self::under(Secret::random(), max_entries)
    }

    /// A store whose counters are known under the secret of another one.
    fn under(secret: Secret, max_entries: usize) -> Self {
        let max_entries = max_entries.max(1);
        let wanted = (max_entries / MIN_ENTRIES_PER_SHARD).clamp(1, MAX_SHARDS);
        let shards = 1 << wanted.ilog2();
        Self {
            secret,
            shards: (0..shards).map(|_| Padded(Mutex::default())).collect(),
            max_entries: max_entries as u64,
            entries: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            cursor: Mutex::default(),
        }
    }

    /// Counters held.
    pub fn held(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Counters that were dropped, though they did not equal fresh ones, because the store was full.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Drops expired counters among the next `budget` places and returns how many it dropped. Called on a short tick
    /// (see [`SWEEP_BUDGET`]) it goes round all shards: each call holds one lock at a time, for at most `budget`
    /// places.
    pub fn sweep(&self, now: Timestamp, budget: usize) -> u64 {
        let mut cursor = self.cursor.lock();
        let (mut removed, mut left) = (0, budget);
        for _ in 0..self.shards.len() {
            let swept = self.shards[cursor.shard].0.lock().sweep(now, cursor.place, left);
            removed += swept.removed;
            left -= swept.places;
            match swept.next {
                Some(place) => cursor.place = place,
                None => *cursor = Cursor { shard: (cursor.shard + 1) % self.shards.len(), place: 0 },
            }
            if left == 0 {
                break;
            }
        }
        self.entries.fetch_sub(removed, Relaxed);
        removed
    }

    fn shard_of(&self, key: Key) -> usize {
        // The number of shards is a power of two, at most 256, so the low byte is more than enough.
        usize::from(key.high as u8) & (self.shards.len() - 1)
    }

    fn lock(&self, keys: &[Key]) -> Held<'_> {
        let mut indexes: Inline<usize> = keys.iter().map(|key| self.shard_of(*key)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        Held { guards: indexes.into_iter().map(|index| (index, self.shards[index].0.lock())).collect() }
    }

    /// Changes a counter, which begins to be kept if it was not. `keep` is what must not make room for it.
    fn change(
        &self,
        shard: &mut Shard,
        key: Key,
        keep: &[Key],
        now: Timestamp,
        change: impl Fn(&mut State) -> Timestamp,
    ) {
        if shard.update(key, &change) {
            return;
        }
        let mut state = State::FRESH;
        let expires = change(&mut state);
        if expires > now {
            self.make_room(shard, key, keep, now);
            shard.insert(key, state, expires);
        }
    }

    /// Counts a new counter in and, when there are too many, drops others of its shard.
    fn make_room(&self, shard: &mut Shard, key: Key, keep: &[Key], now: Timestamp) {
        let mut entries = self.entries.fetch_add(1, Relaxed) + 1;
        for _ in 0..EVICTIONS_A_COUNTER {
            if entries <= self.max_entries {
                return;
            }
            let dropped = shard.make_room(now, keep, key.high.rotate_right(8));
            self.evictions.fetch_add(dropped.evicted, Relaxed);
            let gone = dropped.expired + dropped.evicted;
            entries = self.entries.fetch_sub(gone, Relaxed) - gone;
        }
    }

    /// Charges a counter so that at least `used` is used of it; more that is used already stays.
    pub fn raise(&self, now: Timestamp, meter: &Meter, parts: &[Part<'_>], used: Units) {
        let key = self.secret.key(&meter.identity, parts);
        let shard = &mut *self.shards[self.shard_of(key)].0.lock();
        let (algorithm, quota) = (meter.algorithm, &meter.quota);
        let missing = used - (quota.capacity - algorithm.remaining(quota, shard.state(key), now));
        if missing > 0 {
            self.change(shard, key, &[key], now, |state| {
                algorithm.charge(quota, state, now, missing, Millis(0));
                algorithm.fresh_at(quota, state, now)
            });
        }
    }

    /// All charges or none, at once: [`Store::acquire`] without the wrapping.
    pub fn decide(&self, now: Timestamp, charges: &[Charge<'_>]) -> Outcome {
        let keys = self.keys(charges);
        self.decide_in(&mut self.lock(&keys), now, &keys, charges)
    }

    fn keys(&self, charges: &[Charge<'_>]) -> Inline<Key> {
        charges.iter().map(|charge| self.secret.key(&charge.meter.identity, &charge.parts)).collect()
    }

    /// The decision itself; `keys` names the counter of each charge, and all of their shards are held.
    fn decide_in(&self, held: &mut Held<'_>, now: Timestamp, keys: &[Key], charges: &[Charge<'_>]) -> Outcome {
        let (mut admitted, mut delay) = (true, Millis(0));
        let mut waits: Inline<Wait> = SmallVec::with_capacity(charges.len());
        for (index, (charge, key)) in charges.iter().zip(keys).enumerate() {
            let state = held.shard(self.shard_of(*key)).state(*key);
            let wait = charge.meter.algorithm.wait(&charge.meter.quota, state, now, demand(charges, keys, index));
            if charge.enforced {
                admitted &= wait == Wait::Now;
                if charge.cost > 0 {
                    delay = delay.max(charge.meter.algorithm.delay(&charge.meter.quota, state, now));
                }
            }
            waits.push(wait);
        }
        let delay = if admitted { delay } else { Millis(0) };
        if admitted {
            for ((charge, key), wait) in charges.iter().zip(keys).zip(&waits) {
                if *wait == Wait::Now && charge.cost > 0 {
                    self.change(held.shard(self.shard_of(*key)), *key, keys, now, |state| {
                        charge.take(state, now, delay)
                    });
                }
            }
        }
        let readings = charges.iter().zip(keys).zip(waits).map(|((charge, key), wait)| {
            let state = held.shard(self.shard_of(*key)).state(*key);
            let (algorithm, quota) = (charge.meter.algorithm, &charge.meter.quota);
            Reading {
                known: true,
                stand_in: false,
                remaining: algorithm.remaining(quota, state, now),
                wait,
                reset: algorithm.reset(quota, state, now),
            }
        });
        Outcome { admitted, at: now, delay, degraded: false, readings: readings.collect() }
    }

    fn settle_now(&self, now: Timestamp, corrections: &[Correction<'_>]) {
        for correction in corrections {
            let key = self.secret.key(&correction.meter.identity, &correction.parts);
            self.settle_in(&mut self.shards[self.shard_of(key)].0.lock(), now, key, correction);
        }
    }

    fn settle_in(&self, shard: &mut Shard, now: Timestamp, key: Key, correction: &Correction<'_>) {
        if correction.delta > 0 || (correction.delta < 0 && shard.contains(key)) {
            self.change(shard, key, &[key], now, |state| correction.apply(state, now));
        }
    }

    fn forget_now(&self, charges: &[Charge<'_>]) -> Vec<bool> {
        let forget = |charge: &Charge<'_>| {
            let key = self.secret.key(&charge.meter.identity, &charge.parts);
            let existed = self.shards[self.shard_of(key)].0.lock().remove(key);
            self.entries.fetch_sub(u64::from(existed), Relaxed);
            existed
        };
        charges.iter().map(forget).collect()
    }
}

/// What a charge asks of its counter: its cost and, should one request name a counter twice, what the charges before
/// it ask of the same.
fn demand(charges: &[Charge<'_>], keys: &[Key], index: usize) -> Units {
    let same = charges.iter().zip(keys).take(index).filter(|(_, key)| **key == keys[index]);
    let before = same.map(|(charge, _)| charge.cost).fold(0, Units::saturating_add);
    if charges[index].cost == 0 { 0 } else { before.saturating_add(charges[index].cost) }
}

impl Charge<'_> {
    /// Charges a state and says when it will equal a fresh one.
    fn take(&self, state: &mut State, now: Timestamp, delay: Millis) -> Timestamp {
        let (algorithm, quota) = (self.meter.algorithm, &self.meter.quota);
        algorithm.charge(quota, state, now, self.cost, delay);
        algorithm.fresh_at(quota, state, now)
    }
}

impl Correction<'_> {
    /// Corrects a state and says when it will equal a fresh one.
    fn apply(&self, state: &mut State, now: Timestamp) -> Timestamp {
        let (algorithm, quota) = (self.meter.algorithm, &self.meter.quota);
        if self.delta > 0 {
            algorithm.debit(quota, state, now, self.at, self.delta);
        } else {
            algorithm.refund(quota, state, now, self.at, self.delta.saturating_neg());
        }
        algorithm.fresh_at(quota, state, now)
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>> {
        Answer::Ready(Ok(self.decide(now, charges)))
    }

    fn settle<'a>(&'a self, now: Timestamp, corrections: &'a [Correction<'_>]) -> Answer<'a, Result<(), StoreError>> {
        self.settle_now(now, corrections);
        Answer::Ready(Ok(()))
    }

    fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>> {
        Answer::Ready(Ok(self.forget_now(charges)))
    }

    fn entries(&self) -> Option<u64> {
        Some(self.held())
    }
}
