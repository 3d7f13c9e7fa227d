//! What is counted of the decisions: by limit, route, tier and caller, each with its first refusal.
//!
//! Memory is bounded by the policy and by [`super::callers::MAX_CALLERS`], never by the log.

use super::callers::{Callers, Share};
use super::judge::{Caller, Judge, Outcome, Ruling};
use super::timeline::Timeline;
use crate::algorithm::{Units, Wait};
use crate::time::{Millis, Timestamp};
use std::collections::BTreeMap;

/// Numbers of requests by how they fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub accepted: u64,
    /// By a limit.
    pub refused: u64,
    /// For another reason.
    pub rejected: u64,
    /// The first refusal by a limit: when, and by which.
    pub first: Option<(Timestamp, usize)>,
}

impl Count {
    pub fn add(&mut self, at: Timestamp, ruling: &Ruling) {
        match ruling.outcome {
            Outcome::Accepted => self.accepted += 1,
            Outcome::Rejected(_) => self.rejected += 1,
            Outcome::Refused => {
                self.refused += 1;
                if self.first.is_none() {
                    self.first = ruling.limit.map(|limit| (at, limit));
                }
            }
        }
    }

    pub fn requests(&self) -> u64 {
        self.accepted + self.refused + self.rejected
    }
}

/// What one limit said.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitCount {
    /// Requests that drew on it.
    pub asked: u64,
    /// Requests that did not fit, whether it refuses or is in shadow mode.
    pub over: u64,
    /// Requests whose answer would name it.
    pub refused: u64,
    /// The first that did not fit: when, and whose.
    pub first: Option<(Timestamp, Caller)>,
    /// The least that was left after an accepted request.
    pub lowest: Option<Units>,
}

/// All counts of one policy.
#[derive(Debug)]
pub struct Tally {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub total: Count,
    pub limits: Vec<LimitCount>,
    /// The last is for requests that no route took.
    pub routes: Vec<Count>,
    pub tiers: Vec<Count>,
    pub callers: Callers,
    /// By `error` word.
    pub rejections: BTreeMap<&'static str, u64>,
    /// Held by a leaky bucket before they went on.
    pub held: u64,
    pub longest_hold: Millis,
    pub timeline: Timeline,
}

impl Tally {
    pub fn new(judge: &Judge) -> Self {
        let policy = &judge.policy;
        Self {
            from: None,
            to: None,
            total: Count::default(),
            limits: vec![LimitCount::default(); policy.limits.len()],
            routes: vec![Count::default(); policy.routes.len() + 1],
            tiers: vec![Count::default(); policy.tiers.len()],
            callers: Callers::default(),
            rejections: BTreeMap::new(),
            held: 0,
            longest_hold: Millis(0),
            timeline: Timeline::default(),
        }
    }

    /// Counts a decision; instants do not go back.
    pub fn add(&mut self, at: Timestamp, ruling: &Ruling, judge: &Judge) {
        self.from = self.from.or(Some(at));
        self.to = Some(at);
        self.total.add(at, ruling);
        let unmatched = self.routes.len() - 1;
        self.routes[ruling.route.unwrap_or(unmatched)].add(at, ruling);
        self.tiers[ruling.tier].add(at, ruling);
        self.callers.add(ruling.caller, Share::of(ruling.outcome), at, ruling.limit);
        self.timeline.add(at, ruling.outcome, ruling.limit);
        if let Outcome::Rejected(word) = ruling.outcome {
            *self.rejections.entry(word).or_default() += 1;
        }
        if ruling.outcome == Outcome::Accepted && ruling.decision.delay > Millis(0) {
            self.held += 1;
            self.longest_hold = self.longest_hold.max(ruling.decision.delay);
        }
        self.add_limits(at, ruling, judge);
    }

    fn add_limits(&mut self, at: Timestamp, ruling: &Ruling, judge: &Judge) {
        for (index, status) in ruling.decision.statuses(&judge.policy) {
            let count = &mut self.limits[index];
            count.asked += 1;
            if status.wait != Wait::Now {
                count.over += 1;
                count.first = count.first.or(Some((at, ruling.caller)));
            } else if ruling.decision.admitted {
                count.lowest = Some(count.lowest.map_or(status.remaining, |lowest| lowest.min(status.remaining)));
            }
            if ruling.limit == Some(index) {
                count.refused += 1;
            }
        }
    }
}
