//! Numbers over time, in at most [`MAX_BUCKETS`] spans of one length, which grows with the log: a log of an hour and one
//! of a year take the same memory and fit the same plot.

use super::judge::Outcome;
use crate::time::{Millis, Timestamp};
use serde::Serialize;

/// Spans that are kept.
pub const MAX_BUCKETS: usize = 288;

/// Limits with a line of their own, the first that refuse; what others refuse is in the total alone.
pub const MAX_SERIES: usize = 32;

/// Lengths in seconds, each a multiple of the one before; after the last they double.
const LENGTHS_S: [i64; 13] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400];

/// What happened in one span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bucket {
    pub accepted: u64,
    pub refused: u64,
    pub rejected: u64,
    /// Refusals by series.
    pub by_limit: Vec<u64>,
}

/// Spans from the first instant on, without gaps.
#[derive(Clone, Debug)]
pub struct Timeline {
    length: Millis,
    /// In lengths since the epoch.
    first: i64,
    pub buckets: Vec<Bucket>,
    /// The limits that have a series: indices into the policy's.
    pub series: Vec<usize>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { length: Millis::from_seconds(LENGTHS_S[0]), first: 0, buckets: Vec::new(), series: Vec::new() }
    }
}

impl Timeline {
    /// Counts a decision; instants do not go back.
    pub fn add(&mut self, at: Timestamp, outcome: Outcome, limit: Option<usize>) {
        let series = limit.and_then(|limit| self.series_of(limit));
        let bucket = self.bucket(at);
        match outcome {
            Outcome::Accepted => bucket.accepted += 1,
            Outcome::Rejected(_) => bucket.rejected += 1,
            Outcome::Refused => bucket.refused += 1,
        }
        if let Some(series) = series {
            if bucket.by_limit.len() <= series {
                bucket.by_limit.resize(series + 1, 0);
            }
            bucket.by_limit[series] += 1;
        }
    }

    /// The length of a span.
    pub fn length(&self) -> Millis {
        self.length
    }

    /// Where the first span begins.
    pub fn start(&self) -> Timestamp {
        Timestamp(self.first.saturating_mul(self.length.0))
    }

    fn series_of(&mut self, limit: usize) -> Option<usize> {
        if let Some(place) = self.series.iter().position(|known| *known == limit) {
            return Some(place);
        }
        (self.series.len() < MAX_SERIES).then(|| {
            self.series.push(limit);
            self.series.len() - 1
        })
    }

    fn bucket(&mut self, at: Timestamp) -> &mut Bucket {
        if self.buckets.is_empty() {
            self.first = at.0.div_euclid(self.length.0);
        }
        loop {
            let place = at.0.div_euclid(self.length.0) - self.first;
            // An instant before the first, which an ordered log does not have, counts as the first.
            let place = usize::try_from(place.max(0)).unwrap_or(usize::MAX);
            if place < MAX_BUCKETS {
                if self.buckets.len() <= place {
                    self.buckets.resize(place + 1, Bucket::default());
                }
                return &mut self.buckets[place];
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        let seconds = self.length.0 / 1000;
        let wider = LENGTHS_S.into_iter().find(|length| *length > seconds).unwrap_or(seconds.saturating_mul(2));
        let factor = wider / seconds;
        let first = self.first.div_euclid(factor);
        let mut merged: Vec<Bucket> = Vec::with_capacity(self.buckets.len());
        for (place, bucket) in (self.first..).zip(self.buckets.drain(..)) {
            let place = usize::try_from(place.div_euclid(factor) - first).expect("places ascend from the first");
            if merged.len() <= place {
                merged.push(bucket);
            } else {
                merged[place].merge(&bucket);
            }
        }
        (self.length, self.first, self.buckets) = (Millis::from_seconds(wider), first, merged);
    }
}

impl Bucket {
    fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.rejected += other.rejected;
        if self.by_limit.len() < other.by_limit.len() {
            self.by_limit.resize(other.by_limit.len(), 0);
        }
        for (sum, count) in self.by_limit.iter_mut().zip(&other.by_limit) {
            *sum += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_with_the_log_and_lose_nothing() {
        let mut timeline = Timeline::default();
        for second in 0..100_000 {
            let outcome = if second % 10 == 0 { Outcome::Refused } else { Outcome::Accepted };
            timeline.add(Timestamp(1_796_132_297_000 + second * 1000), outcome, (second % 10 == 0).then_some(7));
        }
        assert_eq!(timeline.length(), Millis(600_000));
        assert!(timeline.buckets.len() <= MAX_BUCKETS);
        assert_eq!(timeline.start(), Timestamp(1_796_131_800_000));
        let sum = |of: fn(&Bucket) -> u64| timeline.buckets.iter().map(of).sum::<u64>();
        assert_eq!((sum(|bucket| bucket.accepted), sum(|bucket| bucket.refused)), (90_000, 10_000));
        assert_eq!((sum(|bucket| bucket.by_limit[0]), timeline.series.as_slice()), (10_000, &[7][..]));
    }

    #[test]
    fn instants_that_lie_apart_by_all_of_time_fit_too() {
        let mut timeline = Timeline::default();
        for at in [0, 1, i64::MAX / 2, i64::MAX] {
            timeline.add(Timestamp(at), Outcome::Rejected("x"), None);
        }
        assert!(timeline.buckets.len() <= MAX_BUCKETS);
        assert_eq!(timeline.buckets.iter().map(|bucket| bucket.rejected).sum::<u64>(), 4);
    }
}
