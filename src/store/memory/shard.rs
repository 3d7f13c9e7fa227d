//! One part of the counters, as one lock guards it: a hash table of slots that knows how to drop the least wanted.
//!
//! A slot is 56 bytes: the key's digest, the state and the instant from which the state equals a fresh one. Nothing
//! here is ever walked as a whole: eviction looks at a bounded sample, sweeping at a bounded slice.

use super::key::Key;
use crate::algorithm::{State, UNIT};
use crate::time::Timestamp;
use hashbrown::HashTable;
use std::ops::ControlFlow;

/// Slots that an eviction compares.
const SAMPLE: usize = 16;
/// Places of the table that an eviction looks at to find its sample.
const SAMPLE_REACH: usize = 256;
/// A table of no more places than this is never shrunk.
const SHRINK_ABOVE: usize = 64;
/// A table is shrunk when it has this many places for each slot.
const SPARSE: usize = 8;

static FRESH: State = State::FRESH;

#[derive(Debug)]
struct Slot {
    key: Key,
    /// From this instant on the state equals a fresh one.
    expires: Timestamp,
    state: State,
}

/// What [`Shard::make_room`] dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Slots that equalled fresh ones.
    pub(super) expired: u64,
    /// Slots that did not.
    pub(super) evicted: u64,
}

/// What [`Shard::sweep`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swept {
    /// Slots dropped.
    pub(super) removed: u64,
    /// Places looked at.
    pub(super) places: usize,
    /// Where to go on; absent when the end was reached.
    pub(super) next: Option<usize>,
}

/// A table of counters.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    /// How often slots may have changed their places.
    moves: u64,
    /// Whether nothing is decided here any more: see [`super::handover`].
    pub(super) sealed: bool,
}

impl Shard {
    /// The counter's state; a counter that is not kept is fresh.
    ///
    /// An expired state is not told apart here: it says by itself that nothing counts any more, and does so under the
    /// quota that holds now, where its expiry was worked out under the one that held then.
    pub(super) fn state(&self, key: Key) -> &State {
        self.table.find(key.low, |slot| slot.key == key).map_or(&FRESH, |slot| &slot.state)
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.table.find(key.low, |slot| slot.key == key).is_some()
    }

    /// Changes the state of a counter that is kept, which `change` returns the expiry of; false if it is not kept.
    pub(super) fn update(&mut self, key: Key, change: impl FnOnce(&mut State) -> Timestamp) -> bool {
        let Some(slot) = self.table.find_mut(key.low, |slot| slot.key == key) else { return false };
        slot.expires = change(&mut slot.state);
        true
    }

    /// Adds a counter that is not kept yet.
    pub(super) fn insert(&mut self, key: Key, state: State, expires: Timestamp) {
        debug_assert!(!self.contains(key), "a counter is kept once");
        // A full table grows, or puts its slots in order.
        self.moves += u64::from(self.table.len() == self.table.capacity());
        self.table.insert_unique(key.low, Slot { key, expires, state }, |slot| slot.key.low);
    }

    /// Drops a counter; false if it was not kept.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        self.table.find_entry(key.low, |slot| slot.key == key).map(|entry| drop(entry.remove())).is_ok()
    }

    /// Drops the expired slots of a sample or, if there are none, the slot that is nearest to a fresh one: the one with
    /// the least in it, since what is forgotten is granted again, and of several the one that expires first. A caller
    /// that is being refused has more in its counter than any newcomer, so newcomers cannot push it out, whatever their
    /// windows. `keep` is never dropped; `from` picks the sample.
    pub(super) fn make_room(&mut self, now: Timestamp, keep: &[Key], from: u64) -> Dropped {
        let mut dropped = Dropped::default();
        let mut nearest: Option<(i64, Timestamp, usize)> = None;
        let places = self.table.num_buckets();
        let start = usize::try_from(from % (places.max(1) as u64)).expect("a place of the table");
        let mut seen = 0;
        let sample = (0..places.min(SAMPLE_REACH)).map(|step| (start + step) % places);
        // A table that is nearly empty may have its few slots elsewhere.
        let sample =
            sample.chain(self.table.iter_buckets().take(SAMPLE).collect::<smallvec::SmallVec<[usize; SAMPLE]>>());
        for place in sample {
            if seen == SAMPLE {
                break;
            }
            let Some(slot) = self.table.get_bucket(place).filter(|slot| !keep.contains(&slot.key)) else { continue };
            seen += 1;
            if slot.expires <= now {
                self.drop_place(place);
                dropped.expired += 1;
            } else if nearest.is_none_or(|(held, expires, _)| (slot.held(), slot.expires) < (held, expires)) {
                nearest = Some((slot.held(), slot.expires, place));
            }
        }
        if let Some((_, _, place)) = nearest.filter(|_| dropped.expired == 0) {
            self.drop_place(place);
            dropped.evicted += 1;
        }
        dropped
    }

    /// Drops what has expired in at most `budget` places from `from` on. At the end of the table, gives memory
    /// back if few slots are left of many.
    pub(super) fn sweep(&mut self, now: Timestamp, from: usize, budget: usize) -> Swept {
        if self.sealed {
            return Swept { removed: 0, places: 0, next: None };
        }
        let places = self.table.num_buckets();
        let end = places.min(from.saturating_add(budget));
        let mut removed = 0;
        for place in from..end {
            if self.table.get_bucket(place).is_some_and(|slot| slot.expires <= now) {
                self.drop_place(place);
                removed += 1;
            }
        }
        let next = (end < places).then_some(end);
        if next.is_none() && places > SHRINK_ABOVE && self.table.len() < places / SPARSE {
            self.table.shrink_to(self.table.len() * 2, |slot| slot.key.low);
            self.moves += 1;
        }
        Swept { removed, places: end.saturating_sub(from), next }
    }

    /// Shows what is in at most `budget` places from `from` on, until `visit` has had enough; returns where to go on,
    /// absent at the end. Places mean the same in a later call only if [`Self::moves`] has not changed.
    pub(super) fn walk(
        &self,
        from: usize,
        budget: usize,
        mut visit: impl FnMut(Key, Timestamp, &State) -> ControlFlow<()>,
    ) -> Option<usize> {
        let places = self.table.num_buckets();
        let end = places.min(from.saturating_add(budget));
        for place in from..end {
            let Some(slot) = self.table.get_bucket(place) else { continue };
            if visit(slot.key, slot.expires, &slot.state).is_break() {
                return (place + 1 < places).then_some(place + 1);
            }
        }
        (end < places).then_some(end)
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    fn drop_place(&mut self, place: usize) {
        if let Ok(entry) = self.table.get_bucket_entry(place) {
            drop(entry.remove());
        }
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.table.num_buckets()
    }
}

impl Slot {
    /// How much is in it, in units. Every algorithm's second cell is what was used last; an entry of a log is taken for a
    /// request of cost 1.
    fn held(&self) -> i64 {
        match &self.state {
            State::Cells(cells) => cells[1],
            State::Log(log) => i64::try_from(log.len()).unwrap_or(i64::MAX).saturating_mul(UNIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key { high: number, low: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    fn shard(slots: impl IntoIterator<Item = (u64, i64, i64)>) -> Shard {
        let mut shard = Shard::default();
        for (number, expires, held) in slots {
            shard.insert(key(number), State::Cells([0, held, 0]), Timestamp(expires));
        }
        shard
    }

    #[test]
    fn a_slot_stays_within_a_cache_line() {
        assert!(size_of::<Slot>() <= 56, "{} bytes", size_of::<Slot>());
    }

    #[test]
    fn expired_slots_leave_before_any_other() {
        let mut shard = shard([(1, 500, 1), (2, 100, 9), (3, 900, 1), (4, 90, 1)]);
        assert_eq!(shard.make_room(Timestamp(100), &[], 7), Dropped { expired: 2, evicted: 0 });
        assert!(shard.contains(key(1)) && shard.contains(key(3)));
    }

    #[test]
    fn the_slot_with_the_least_in_it_leaves_first_and_the_fullest_last() {
        let mut shard = shard([(1, 500, 1000), (2, 400, 5000), (3, 400, 2000), (4, 900, 1)]);
        let mut order = Vec::new();
        for _ in 0..4 {
            let before: Vec<u64> = (1..=4).filter(|number| shard.contains(key(*number))).collect();
            assert_eq!(shard.make_room(Timestamp(0), &[], 3), Dropped { expired: 0, evicted: 1 });
            order.extend(before.into_iter().filter(|number| !shard.contains(key(*number))));
        }
        assert_eq!(order, [4, 1, 3, 2]);
        assert_eq!(shard.make_room(Timestamp(0), &[], 3), Dropped::default());
    }

    #[test]
    fn counters_of_the_request_itself_are_never_dropped() {
        let mut shard = shard([(1, 100, 1), (2, 100, 1)]);
        assert_eq!(shard.make_room(Timestamp(0), &[key(1), key(2)], 0), Dropped::default());
        assert_eq!(shard.make_room(Timestamp(0), &[key(1)], 0).evicted, 1);
        assert!(shard.contains(key(1)));
    }

    #[test]
    fn a_sweep_goes_on_where_it_stopped_and_gives_memory_back() {
        let mut shard = shard((0..1000).map(|number| (number, if number < 10 { 900 } else { 100 }, 1)));
        let places = shard.places();
        let (mut from, mut removed, mut calls) = (0, 0, 0);
        loop {
            let swept = shard.sweep(Timestamp(100), from, 64);
            assert!(swept.places <= 64);
            removed += swept.removed;
            calls += 1;
            match swept.next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!((removed, calls), (990, places / 64));
        assert!(shard.places() <= 64, "{} places for 10 slots", shard.places());
        assert!((0..10).all(|number| shard.contains(key(number))));
    }
}
