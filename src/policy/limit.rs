//! One limit, compiled: everything that is fixed at load time is worked out here, so that a request only fills in
//! its own values.

use super::facts::Facts;
use super::limit_text::LimitText;
use super::scope::{Axis, header_value};
use crate::algorithm::UNIT;
use crate::charge::Meter;
use crate::config::model::{Counts, Layer, Mode, Name, When};
use crate::request::client::contains;
use crate::request::host;

/// An index into [`super::Policy::tiers`].
pub type TierIndex = usize;

/// One named rule.
#[derive(Debug)]
pub struct Limit {
    pub name: Name,
    pub layer: Layer,
    /// The arithmetic and the identity of the counters.
    pub meter: Meter,
    /// What has a counter of its own, in configured order.
    pub per: Vec<Axis>,
    pub counts: Counts,
    /// Only callers of these tiers; absent: all.
    pub tiers: Option<Vec<TierIndex>>,
    pub mode: Mode,
    pub expose: bool,
    pub when: Option<When>,
    /// What responses write of it, whatever the request.
    pub text: LimitText,
}

impl Limit {
    /// Whether the limit concerns the request at all, by its `tiers` and `when`.
    pub fn applies(&self, facts: &Facts<'_>) -> bool {
        self.tiers.as_ref().is_none_or(|tiers| tiers.contains(&facts.tier))
            && self.when.as_ref().is_none_or(|when| holds(when, facts))
    }

    /// What can be left at most, in whole requests: the quota of a window, a burst, a queue.
    pub fn capacity(&self) -> i64 {
        self.meter.quota.capacity / UNIT
    }

    /// Requests in one window.
    pub fn count(&self) -> i64 {
        self.meter.quota.count / UNIT
    }

    /// Whether headers and bodies may show it.
    pub fn is_shown(&self) -> bool {
        self.expose && self.mode == Mode::Enforce
    }
}

fn holds(when: &When, facts: &Facts<'_>) -> bool {
    when.method.as_ref().is_none_or(|methods| methods.iter().any(|method| method == facts.method))
        && when.ip.as_ref().is_none_or(|networks| contains(networks, facts.address))
        && when.host.as_ref().is_none_or(|hosts| hosts.iter().any(|pattern| host::matches(pattern, facts.host)))
        && when.headers.iter().all(|(name, value)| *header_value(facts.headers, name) == *value.as_bytes())
}
