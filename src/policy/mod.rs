//! What the operator meant: the configuration compiled into one immutable value that a request reads.
//!
//! A [`Policy`] holds no counter, so replacing it loses none: counters live in the store under names that survive a
//! reload. It is swapped whole; a request takes it once and keeps it to its end. [`Policy::select`] turns the facts
//! of a request into charges, in the order ip, key, endpoint, custom, as configured.

mod compile;
mod dominance;
pub mod facts;
pub mod limit;
pub mod limit_text;
mod names;
mod references;
pub mod scope;
pub mod subject;
mod warnings;

use crate::algorithm::{UNIT, Units};
use crate::charge::{Charge, Charges};
use crate::config::model::{Counts, Layer, Mode, Name, Paths, RouteAuth};
use crate::request::caller::KeyTable;
use crate::request::client::{AddressRules, contains};
use crate::request::credential::Source;
use crate::request::route::Router;
use crate::time::Millis;
use facts::{Draw, Facts};
use ipnet::IpNet;
use limit::{Limit, TierIndex};
use smallvec::SmallVec;
use std::ops::Range;

pub use compile::{FAILURES, compile};

#[cfg(test)]
mod tests;

/// The tier of callers without a key.
pub const ANONYMOUS: TierIndex = 0;

/// The compiled configuration of one generation.
#[derive(Debug)]
pub struct Policy {
    /// Every limit; the owners below hold ranges of it.
    pub limits: Vec<Limit>,
    pub address_rules: AddressRules,
    /// When not empty, all other addresses are forbidden.
    pub allow: Vec<IpNet>,
    pub deny: Vec<IpNet>,
    /// Networks on which no limit applies.
    pub exempt: Vec<IpNet>,
    pub paths: Paths,
    pub sources: Vec<Source>,
    /// Whether a request without a key may pass where a key is optional.
    pub anonymous: bool,
    pub forward_credentials: bool,
    pub keys: KeyTable,
    pub consumers: Vec<Consumer>,
    /// `anonymous` is the first.
    pub tiers: Vec<Tier>,
    pub router: Router,
    pub routes: Vec<Route>,
    address_limits: Range<usize>,
    custom_limits: Range<usize>,
    /// The budget of wrong keys; an index into `limits`.
    failures: usize,
}

/// Who stands behind one or more keys.
#[derive(Debug)]
pub struct Consumer {
    pub name: Name,
    pub tier: TierIndex,
    /// Own limits, instead of the tier's.
    limits: Option<Range<usize>>,
}

/// A plan.
#[derive(Debug)]
pub struct Tier {
    pub name: Name,
    limits: Range<usize>,
}

/// A set of requests that share a name, an upstream and limits.
#[derive(Debug)]
pub struct Route {
    pub name: Name,
    /// An index into the upstreams as configured.
    pub upstream: usize,
    pub cost: Units,
    pub auth: RouteAuth,
    /// Absent: every tier may call.
    pub tiers: Option<Vec<TierIndex>>,
    pub skip: Vec<Layer>,
    pub timeout: Option<Millis>,
    pub strip_prefix: Option<String>,
    limits: Range<usize>,
}

/// The limits that apply to a request, as charges; `limits[i]` is the index of `charges[i]`'s limit.
pub struct Selection<'a> {
    pub limits: SmallVec<[usize; crate::charge::INLINE_CHARGES]>,
    pub charges: Charges<'a>,
}

impl Policy {
    /// Whether `allow` lets the address call; what `deny` says of it is another question.
    pub fn admits_address(&self, address: std::net::IpAddr) -> bool {
        self.allow.is_empty() || contains(&self.allow, address)
    }

    /// The limits that the configuration writes as such: all but the budget of wrong keys.
    pub fn written_limits(&self) -> impl Iterator<Item = &Limit> {
        let written = self.limits.iter().enumerate().filter(|(index, _)| *index != self.failures);
        written.map(|(_, limit)| limit)
    }

    /// The charges of a request, in the order that headers list them.
    pub fn select<'a>(&'a self, facts: &'a Facts<'_>, draw: Draw) -> Selection<'a> {
        let mut selection = Selection { limits: SmallVec::new(), charges: SmallVec::new() };
        if draw == Draw::Nothing {
            return selection;
        }
        let route = facts.route.map(|index| &self.routes[index]);
        let skips = |layer: Layer| route.is_some_and(|route| route.skip.contains(&layer));
        if !skips(Layer::Ip) {
            self.push(&mut selection, self.address_limits.clone(), facts, draw);
        }
        if draw == Draw::WrongKey {
            self.push(&mut selection, self.failures..self.failures + 1, facts, draw);
        }
        if draw == Draw::Everything {
            if !skips(Layer::Key) {
                self.push(&mut selection, self.key_limits(facts), facts, draw);
            }
            if let Some(route) = route.filter(|_| !skips(Layer::Endpoint)) {
                self.push(&mut selection, route.limits.clone(), facts, draw);
            }
            self.push(&mut selection, self.custom_limits.clone(), facts, draw);
        }
        selection
    }

    fn key_limits(&self, facts: &Facts<'_>) -> Range<usize> {
        facts
            .consumer
            .and_then(|consumer| self.consumers[consumer].limits.clone())
            .unwrap_or_else(|| self.tiers[facts.tier].limits.clone())
    }

    fn push<'a>(&'a self, selection: &mut Selection<'a>, range: Range<usize>, facts: &'a Facts<'_>, draw: Draw) {
        for index in range {
            let limit = &self.limits[index];
            if !limit.applies(facts) {
                continue;
            }
            let cost = match (draw, limit.counts) {
                (Draw::Everything, Counts::Cost) => facts.route.map_or(UNIT, |route| self.routes[route].cost),
                _ => UNIT,
            };
            selection.limits.push(index);
            selection.charges.push(Charge {
                meter: &limit.meter,
                parts: scope::parts(&limit.per, facts, self),
                cost,
                enforced: limit.mode == Mode::Enforce,
            });
        }
    }
}
