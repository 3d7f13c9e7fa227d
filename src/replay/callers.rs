//! The callers that were refused most, in bounded memory.
//!
//! Each caller has one entry. When [`MAX_CALLERS`] are kept the half with the fewest refusals (of these, with the fewest
//! requests) is dropped, so a caller that is hit hard stays. One that was dropped and comes back begins anew: from then
//! on numbers of callers are lower bounds, and the report says so.

use super::judge::{Caller, Outcome};
use crate::time::Timestamp;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Callers that are kept; an entry takes some 120 bytes.
pub const MAX_CALLERS: usize = 262_144;

/// Limits of one caller that are told apart; further ones are not counted by name.
const MAX_LIMITS: usize = 4;

/// How one request bears on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Passed,
    Refused,
}

impl Share {
    pub fn of(outcome: Outcome) -> Self {
        if outcome == Outcome::Refused { Self::Refused } else { Self::Passed }
    }
}

/// What is known of one caller.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    pub requests: u64,
    pub refused: u64,
    pub first: Option<(Timestamp, usize)>,
    /// Refusals by limit.
    pub limits: SmallVec<[(u32, u64); 2]>,
}

/// The callers.
#[derive(Debug, Default)]
pub struct Callers {
    kept: HashMap<Caller, Hits>,
    /// Entries that were dropped.
    pub dropped: u64,
}

impl Callers {
    pub fn add(&mut self, caller: Caller, share: Share, at: Timestamp, limit: Option<usize>) {
        if self.kept.len() >= MAX_CALLERS && !self.kept.contains_key(&caller) {
            self.drop_half();
        }
        let hits = match self.kept.entry(caller) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Hits::default()),
        };
        hits.requests += 1;
        if share == Share::Refused {
            hits.refused += 1;
            if let Some(limit) = limit {
                hits.first = hits.first.or(Some((at, limit)));
                hits.add_limit(u32::try_from(limit).unwrap_or(u32::MAX));
            }
        }
    }

    fn drop_half(&mut self) {
        let mut ranks: Vec<(u64, u64)> = self.kept.values().map(|hits| (hits.refused, hits.requests)).collect();
        let middle = ranks.len() / 2;
        let (_, bar, _) = ranks.select_nth_unstable(middle);
        let bar = *bar;
        let mut left = middle;
        self.kept.retain(|_, hits| {
            let goes = left > 0 && (hits.refused, hits.requests) <= bar;
            left -= usize::from(goes);
            !goes
        });
        self.dropped += (middle - left) as u64;
    }

    /// The callers with the most refusals, the hardest hit first.
    pub fn hardest_hit(&self, count: usize) -> Vec<(Caller, &Hits)> {
        let mut hit: Vec<_> =
            self.kept.iter().filter(|(_, hits)| hits.refused > 0).map(|(c, hits)| (*c, hits)).collect();
        hit.sort_unstable_by_key(|(caller, hits)| (std::cmp::Reverse(hits.refused), *caller));
        hit.truncate(count);
        hit
    }

    /// Callers with a refusal, as far as they are kept.
    pub fn refused(&self) -> u64 {
        self.kept.values().filter(|hits| hits.refused > 0).count() as u64
    }

    pub fn len(&self) -> u64 {
        self.kept.len() as u64
    }
}

impl Hits {
    fn add_limit(&mut self, limit: u32) {
        if let Some((_, count)) = self.limits.iter_mut().find(|(known, _)| *known == limit) {
            *count += 1;
        } else if self.limits.len() < MAX_LIMITS {
            self.limits.push((limit, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_hardest_hit_stay() {
        let mut callers = Callers::default();
        let hit = Caller::Consumer(usize::MAX);
        for caller in 0..MAX_CALLERS * 2 {
            callers.add(Caller::Consumer(caller), Share::Passed, Timestamp(0), None);
            if caller % 1000 == 0 {
                callers.add(hit, Share::Refused, Timestamp(caller as i64), Some(caller % 7));
            }
        }
        assert!(callers.len() <= MAX_CALLERS as u64);
        assert_eq!(callers.dropped + callers.len(), MAX_CALLERS as u64 * 2 + 1);
        let hardest = callers.hardest_hit(10);
        assert_eq!(hardest.len(), 1);
        let (caller, hits) = hardest[0];
        assert_eq!(
            (caller, hits.refused, hits.first),
            (hit, (MAX_CALLERS as u64 * 2).div_ceil(1000), Some((Timestamp(0), 0)))
        );
        assert_eq!(hits.limits.len(), MAX_LIMITS);
    }
}
