//! A log of what was admitted in the last W: exact over every span, at the price of an entry a request.
//!
//! State: `State::Log`, entries of an instant and the sum of all costs up to and including it, oldest first; entries of
//! one instant are merged. With running sums the cost in a window is a difference of two of them, the entry that has
//! to leave for a cost to fit is a binary search, and trimming is amortised over the charges. An entry of t counts in
//! (now - W, now]: it has left at t + W exactly. Refused requests are never entered.

use super::{
    Algorithm, MAX_SPAN_MS, Quota, State, UNIT, Units, Wait, check_no_capacity, check_no_max_wait, check_rate, held,
    is_known,
};
use crate::time::{Millis, Timestamp};
use std::collections::VecDeque;

/// The largest count of requests a log may have, and the most entries it keeps.
pub const MAX_LOG_COUNT: i64 = 100_000;

/// With more entries than a quota has requests (costs far below 1), new cost joins the newest entry.
const MAX_LOG_ENTRIES: usize = 100_000;

/// Running sums are brought down again before they come near the end of the integers.
const REBASE_AT: Units = 1 << 60;

/// A log keeps room for this many entries however few it has.
const MIN_ROOM: usize = 32;

/// What was admitted, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The running sum before the first entry.
    gone: Units,
}

/// All that was admitted at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Timestamp,
    /// The cost of this entry and of all before it.
    sum: Units,
}

impl Log {
    /// A log of these admissions; an instant that is earlier than the one before it counts as that one, and what cannot
    /// be an admission is left out.
    pub fn from_entries(entries: impl IntoIterator<Item = (Timestamp, Units)>) -> Self {
        let mut log = Self::default();
        for (at, cost) in entries.into_iter().filter(|(at, cost)| is_known(at.0) && *cost > 0) {
            log.push(at, cost);
        }
        log
    }

    /// Instant and cost of each entry, oldest first, those that have left but were not trimmed yet included.
    pub fn entries(&self) -> impl Iterator<Item = (Timestamp, Units)> + '_ {
        self.entries.iter().enumerate().map(|(index, entry)| (entry.at, entry.sum - self.sum_before(index)))
    }

    /// Entries kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that fit without allocating: its memory is 16 bytes of each.
    pub fn room(&self) -> usize {
        self.entries.capacity()
    }

    fn newest(&self) -> Option<Timestamp> {
        self.entries.back().map(|entry| entry.at)
    }

    fn sum_before(&self, index: usize) -> Units {
        if index == 0 { self.gone } else { self.entries[index - 1].sum }
    }

    fn total(&self) -> Units {
        self.sum_before(self.entries.len())
    }

    /// The index of the first entry after `instant`.
    fn first_after(&self, instant: Timestamp) -> usize {
        // Most logs are read right after they were trimmed.
        match self.entries.front() {
            Some(front) if front.at <= instant => self.entries.partition_point(|entry| entry.at <= instant),
            _ => 0,
        }
    }

    /// Enters cost at an instant that is not before the newest entry's.
    fn push(&mut self, at: Timestamp, cost: Units) {
        let sum = self.total().saturating_add(held(cost));
        let full = self.entries.len() >= MAX_LOG_ENTRIES;
        match self.entries.back_mut() {
            // A full log joins the two: the older cost then leaves later than it could, never earlier.
            Some(newest) if newest.at >= at || full => {
                newest.at = newest.at.max(at);
                newest.sum = sum;
            }
            _ => self.entries.push_back(Entry { at, sum }),
        }
    }

    /// Enters cost at an instant that may lie before other entries.
    fn insert(&mut self, at: Timestamp, cost: Units) {
        let index = self.entries.partition_point(|entry| entry.at < at);
        let Some(entry) = self.entries.get(index) else { return self.push(at, cost) };
        if entry.at > at && self.entries.len() < MAX_LOG_ENTRIES {
            self.entries.insert(index, Entry { at, sum: self.sum_before(index) });
        }
        for entry in self.entries.range_mut(index..) {
            entry.sum = entry.sum.saturating_add(held(cost));
        }
    }

    /// Takes cost out of the entry of exactly that instant, down to nothing.
    fn remove(&mut self, at: Timestamp, cost: Units) {
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) else { return };
        let own = self.entries[index].sum - self.sum_before(index);
        let taken = held(cost).min(own);
        for entry in self.entries.range_mut(index..) {
            entry.sum -= taken;
        }
        if taken == own {
            self.entries.remove(index);
        }
    }

    /// Drops all entries up to and including `instant`, and room that is no longer needed.
    fn trim(&mut self, instant: Timestamp) {
        while let Some(front) = self.entries.front().filter(|front| front.at <= instant) {
            self.gone = front.sum;
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            self.gone = 0;
        }
        if self.gone > REBASE_AT {
            for entry in &mut self.entries {
                entry.sum -= self.gone;
            }
            self.gone = 0;
        }
        if self.entries.capacity() > MIN_ROOM && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to((self.entries.len() * 2).max(MIN_ROOM));
        }
    }
}

/// The part of a log that counts at an instant.
struct View<'a> {
    log: &'a Log,
    window: Millis,
    /// The index of the first entry that counts.
    first: usize,
}

impl<'a> View<'a> {
    /// Absent when the state has no entries.
    fn at(quota: &Quota, state: &'a State, now: Timestamp) -> Option<Self> {
        let State::Log(log) = state else { return None };
        let window = quota.window.nominal();
        let seen = now.max(log.newest()?);
        Some(Self { log, window, first: log.first_after(left_at(seen, window)) })
    }

    fn used(&self) -> Units {
        self.log.total() - self.log.sum_before(self.first)
    }

    /// From `now`, how long until the entry of that index has left.
    fn until_left(&self, index: usize, now: Timestamp) -> Option<Millis> {
        self.log.entries.get(index).map(|entry| Millis((entry.at + self.window - now).0.clamp(0, MAX_SPAN_MS)))
    }
}

/// The latest instant whose entries have left at `now`.
fn left_at(now: Timestamp, window: Millis) -> Timestamp {
    now + Millis(-window.0)
}

/// The log of a state that is about to change; what is not a log was a fresh counter.
fn log_of(state: &mut State) -> &mut Log {
    if !matches!(state, State::Log(_)) {
        *state = State::Log(Box::default());
    }
    match state {
        State::Log(log) => log,
        State::Cells(_) => unreachable!("replaced by a log just above"),
    }
}

/// `sliding_window_log`.
pub struct SlidingLog;

impl Algorithm for SlidingLog {
    fn name(&self) -> &'static str {
        "sliding_window_log"
    }

    fn check(&self, quota: &Quota) -> Result<(), String> {
        check_rate(quota)?;
        check_no_capacity(self.name(), quota)?;
        check_no_max_wait(quota)?;
        if quota.count > MAX_LOG_COUNT * UNIT {
            return Err(format!(
                "sliding_window_log keeps an entry a request and allows a count of at most {MAX_LOG_COUNT}; \
                 use sliding_window_counter for more"
            ));
        }
        Ok(())
    }

    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units {
        let used = View::at(quota, state, now).map_or(0, |view| view.used());
        (quota.count - used).max(0)
    }

    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait {
        if cost == 0 {
            return Wait::Now;
        }
        if cost > quota.count {
            return Wait::Never;
        }
        let Some(view) = View::at(quota, state, now) else { return Wait::Now };
        let excess = view.used() - (quota.count - cost);
        if excess <= 0 {
            return Wait::Now;
        }
        // The first entry with which enough has left; the sums never fall, so this is a binary search.
        let enough = view.log.sum_before(view.first) + excess;
        let last_to_leave = view.log.entries.partition_point(|entry| entry.sum < enough);
        Wait::after(view.until_left(last_to_leave, now).unwrap_or(Millis(0)))
    }

    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, _delay: Millis) {
        if cost == 0 {
            return;
        }
        let log = log_of(state);
        let seen = log.newest().map_or(now, |newest| now.max(newest));
        log.trim(left_at(seen, quota.window.nominal()));
        log.push(seen, cost);
    }

    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let room = quota.deepest() - View::at(quota, state, now).map_or(0, |view| view.used());
        let debt = held(cost).min(room);
        let left = left_at(now, quota.window.nominal());
        if debt > 0 && at > left {
            let log = log_of(state);
            log.trim(left);
            log.insert(at.min(now), debt);
        }
    }

    fn refund(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        if let State::Log(log) = state {
            log.trim(left_at(now, quota.window.nominal()));
            log.remove(at, cost);
        }
    }

    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        View::at(quota, state, now).and_then(|view| view.until_left(view.first, now)).unwrap_or(Millis(0))
    }

    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp {
        let newest = View::at(quota, state, now).and_then(|view| view.log.newest());
        newest.map_or(now, |newest| now.max(newest + quota.window.nominal()))
    }
}
