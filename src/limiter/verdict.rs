//! What the decision says of each limit, and which of them a client is shown.

use crate::algorithm::{UNIT, Units, Wait};
use crate::charge::INLINE_CHARGES;
use crate::config::model::Mode;
use crate::policy::limit::Limit;
use crate::time::{Millis, Timestamp};
use smallvec::SmallVec;

/// One limit that applied to the request, as it stands after the decision.
#[derive(Clone, Debug)]
pub struct LimitStatus<'a> {
    pub limit: &'a Limit,
    /// What the request costs on this limit.
    pub cost: Units,
    /// Units left after the request.
    pub remaining: Units,
    /// Whether the cost fitted, and if not, when it will.
    pub wait: Wait,
    /// The reset to show on an accepted response.
    pub reset: Millis,
}

impl LimitStatus<'_> {
    /// Whether this limit refuses the request.
    pub fn refuses(&self) -> bool {
        self.limit.mode == Mode::Enforce && self.wait != Wait::Now
    }

    /// Whole requests left, rounded down, never negative.
    pub fn remaining_requests(&self) -> i64 {
        self.remaining.max(0) / UNIT
    }

    /// The span that every reset field names: the wait when this limit refuses, else the algorithm's reset.
    pub fn reset_after(&self) -> Millis {
        match self.wait {
            Wait::After(wait) if self.refuses() => wait,
            _ => self.reset,
        }
    }
}

/// The decision on one request.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// In the order ip, key, endpoint, custom, as configured.
    pub statuses: SmallVec<[LimitStatus<'a>; INLINE_CHARGES]>,
    pub admitted: bool,
    /// The store's instant.
    pub at: Timestamp,
    /// How long the request is to be held before it goes on.
    pub delay: Millis,
}

impl<'a> Verdict<'a> {
    /// The refusing limit whose wait is the longest; `Never` is longer than any.
    pub fn refusing(&self) -> Option<&LimitStatus<'a>> {
        let length = |status: &LimitStatus<'_>| match status.wait {
            Wait::Now => 0,
            Wait::After(wait) => wait.0,
            Wait::Never => i64::MAX,
        };
        self.statuses.iter().filter(|status| status.refuses()).rev().max_by_key(|status| length(status))
    }

    /// The limit that single-valued fields show: on a refusal the refusing one with the longest wait, else the one
    /// with the lowest remaining (tie: the longer window). Shadow and unexposed limits are never it.
    pub fn shown(&self) -> Option<&LimitStatus<'a>> {
        if self.admitted {
            self.visible().min_by_key(|status| {
                (status.remaining_requests(), std::cmp::Reverse(status.limit.meter.quota.window.nominal()))
            })
        } else {
            self.refusing().filter(|status| status.limit.is_shown())
        }
    }

    /// The limits that headers may list.
    pub fn visible(&self) -> impl Iterator<Item = &LimitStatus<'a>> {
        self.statuses.iter().filter(|status| status.limit.is_shown())
    }
}
