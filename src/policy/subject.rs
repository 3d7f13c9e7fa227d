//! Which counters are a caller's: those of every limit that is split by who calls, on all layers, for one consumer or address.
//!
//! What splits a limit further is gone through where the configuration knows all of it: routes, tiers, the usual methods. What
//! only requests know (hosts, headers, path parameters) has to be said; unsaid, such a header or parameter is taken as `""`, the
//! counter of all who lack it, and the limit is told to be open. Nothing here asks a store.

use super::limit::{Limit, TierIndex};
use super::scope::Axis;
use super::{ANONYMOUS, Policy};
use crate::charge::{Charge, Part, Parts};
use crate::config::model::Scope;
use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;

/// Counters that one question may name.
pub const MAX_COUNTERS: usize = 4096;

/// Methods that are gone through when none is said.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Who is asked about, and what is known of requests.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// An index into [`Policy::consumers`].
    pub consumer: Option<usize>,
    /// The network that an address counts as.
    pub group: Option<IpAddr>,
    /// Values by the tag of their scope: `header:x-tenant`, `param:id`, `host`, `method`.
    pub values: Vec<(String, String)>,
}

/// The counters of a caller.
#[derive(Debug, Default)]
pub struct Counters<'a> {
    /// An index into [`Policy::limits`] and what picks the counter.
    pub found: Vec<(usize, Parts<'a>)>,
    /// Limits that have more counters of this caller than were found, and what was not said.
    pub open: Vec<(usize, Vec<&'a str>)>,
}

/// A caller has more counters than [`MAX_COUNTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Whose limits are looked at: what of a request is fixed by where its limit was written.
#[derive(Clone, Copy, Default)]
struct Owner {
    route: Option<usize>,
    tier: Option<TierIndex>,
}

impl Policy {
    /// Every counter whose subject the caller is.
    pub fn counters_of<'a>(&'a self, subject: &'a Subject) -> Result<Counters<'a>, TooMany> {
        let mut counters = Counters::default();
        self.add(&mut counters, &self.address_limits, Owner::default(), subject)?;
        self.add(&mut counters, &(self.failures..self.failures + 1), Owner::default(), subject)?;
        if let Some(consumer) = subject.consumer.map(|index| &self.consumers[index]) {
            let limits = consumer.limits.as_ref().unwrap_or(&self.tiers[consumer.tier].limits);
            self.add(&mut counters, limits, Owner { tier: Some(consumer.tier), ..Owner::default() }, subject)?;
        }
        if subject.group.is_some() && subject.consumer.is_none() {
            for (index, tier) in self.tiers.iter().enumerate() {
                self.add(&mut counters, &tier.limits, Owner { tier: Some(index), ..Owner::default() }, subject)?;
            }
            for consumer in &self.consumers {
                let Some(limits) = &consumer.limits else { continue };
                let owner = Owner { tier: Some(consumer.tier), ..Owner::default() };
                // Of other consumers only what is split by address and nothing else of the caller.
                let by_address = |index: &usize| !self.limits[*index].per.iter().any(is_of_consumer);
                for index in limits.clone().filter(by_address) {
                    self.add(&mut counters, &(index..index + 1), owner, subject)?;
                }
            }
        }
        for (index, route) in self.routes.iter().enumerate() {
            self.add(&mut counters, &route.limits, Owner { route: Some(index), ..Owner::default() }, subject)?;
        }
        self.add(&mut counters, &self.custom_limits, Owner::default(), subject)?;
        Ok(counters)
    }

    fn add<'a>(
        &'a self,
        into: &mut Counters<'a>,
        limits: &Range<usize>,
        owner: Owner,
        subject: &'a Subject,
    ) -> Result<(), TooMany> {
        for index in limits.clone() {
            let limit = &self.limits[index];
            if !self.may_concern(limit, owner, subject) {
                continue;
            }
            let mut open = Vec::new();
            let mut combinations = vec![Parts::new()];
            for axis in &limit.per {
                let choices = self.choices(axis, limit, owner, subject, &mut open);
                if combinations.len().saturating_mul(choices.len()) > MAX_COUNTERS - into.found.len() {
                    return Err(TooMany);
                }
                combinations = combinations
                    .iter()
                    .flat_map(|parts| choices.iter().map(|choice| parts.iter().chain([choice]).cloned().collect()))
                    .collect();
            }
            into.found.extend(combinations.into_iter().map(|parts| (index, parts)));
            if !open.is_empty() {
                into.open.push((index, open));
            }
        }
        Ok(())
    }

    /// Whether the limit is split by who calls, and may ever apply to this caller.
    fn may_concern(&self, limit: &Limit, owner: Owner, subject: &Subject) -> bool {
        let is_split = limit.per.iter().any(|axis| *axis.scope() == Scope::Ip || is_of_consumer(axis));
        let tier = match subject.consumer {
            Some(consumer) => Some(self.consumers[consumer].tier),
            // What counts callers without a key by address counts others by name.
            None => limit.per.iter().any(is_of_consumer).then_some(ANONYMOUS),
        };
        let takes = |tiers: &Vec<TierIndex>| tier.is_none_or(|tier| tiers.contains(&tier));
        let has_tier = owner.tier.is_none_or(|owned| tier.is_none_or(|tier| tier == owned));
        is_split && has_tier && limit.tiers.as_ref().is_none_or(takes)
    }

    /// The values that an axis has for the caller; none when the caller has no counter there.
    fn choices<'a>(
        &'a self,
        axis: &'a Axis,
        limit: &Limit,
        owner: Owner,
        subject: &'a Subject,
        open: &mut Vec<&'a str>,
    ) -> Vec<Part<'a>> {
        let tag = axis.tag();
        let named = |value: &'a str| Part::Named(tag, value.as_bytes());
        let said = subject.values.iter().find(|(name, _)| name == tag).map(|(_, value)| named(value));
        let by_address = || subject.group.map(Part::Address);
        match axis.scope() {
            Scope::Ip => {
                if subject.group.is_none() && limit.per.iter().any(is_of_consumer) {
                    open.push(tag);
                }
                by_address().into_iter().collect()
            }
            Scope::Consumer | Scope::Subject => {
                if subject.consumer.is_none() && limit.per.iter().any(|axis| *axis.scope() == Scope::Ip) {
                    open.push(tag);
                }
                let name = subject.consumer.map(|index| named(&self.consumers[index].name));
                name.or_else(by_address).into_iter().collect()
            }
            Scope::Global => vec![named("")],
            Scope::Route => match owner.route {
                Some(route) => vec![named(&self.routes[route].name)],
                // Requests that no route takes draw on limits of the layer `ip`.
                None => self.routes.iter().map(|route| named(&route.name)).chain([named("")]).collect(),
            },
            Scope::Tier => self.tiers_of(limit, owner, subject).map(|tier| named(&self.tiers[tier].name)).collect(),
            _ if said.is_some() => said.into_iter().collect(),
            Scope::Method => {
                let method = |method: &'static str| Part::Owned(Cow::Borrowed(tag), method.as_bytes().into());
                METHODS.into_iter().map(method).collect()
            }
            Scope::Host | Scope::Header(_) | Scope::Param(_) => {
                open.push(tag);
                vec![named("")]
            }
        }
    }

    fn tiers_of(&self, limit: &Limit, owner: Owner, subject: &Subject) -> Range<usize> {
        let only = match (subject.consumer, owner.tier) {
            (Some(consumer), _) => Some(self.consumers[consumer].tier),
            (None, Some(tier)) => Some(tier),
            (None, None) => limit.per.iter().any(is_of_consumer).then_some(ANONYMOUS),
        };
        only.map_or(0..self.tiers.len(), |tier| tier..tier + 1)
    }
}

impl<'a> Counters<'a> {
    /// As charges that take nothing.
    pub fn charges(&self, policy: &'a Policy) -> Vec<Charge<'a>> {
        let charge = |(limit, parts): &(usize, Parts<'a>)| Charge {
            meter: &policy.limits[*limit].meter,
            parts: parts.clone(),
            cost: 0,
            enforced: false,
        };
        self.found.iter().map(charge).collect()
    }
}

fn is_of_consumer(axis: &Axis) -> bool {
    matches!(axis.scope(), Scope::Consumer | Scope::Subject)
}
