//! What works, but hardly as meant: routes that nobody can call, tiers that no key uses, costs that never fit, limits that
//! never apply or never bind.
//!
//! Everything said here is certain; where it depends on traffic, nothing is said. Whether a limit can bind is
//! [`super::dominance`]'s question. Only warnings come from here, and only for a policy without errors.

use super::dominance;
use super::limit::{Limit, TierIndex};
use super::{ANONYMOUS, Policy};
use crate::algorithm::UNIT;
use crate::config::Problem;
use crate::config::model::{self, Config, Counts, Layer, Place, RouteAuth};
use crate::policy::limit_text::thousandths;
use std::ops::Range;

/// Limits that the limits of one owner may be compared with; beyond it nothing is said of them.
const MAX_COMPARED: usize = 64;

/// The warnings of a policy that was compiled from `config`.
pub fn warnings(config: &Config, policy: &Policy) -> Vec<Problem> {
    let view = View { config, policy, used: used_tiers(policy) };
    let mut found = view.tiers_without_keys();
    view.routes_of_nobody(&mut found);
    view.costs(&mut found);
    for owner in view.owners() {
        view.limits_that_never_apply(&owner, &mut found);
        view.limits_that_never_bind(&owner, &mut found);
    }
    found
}

struct View<'c> {
    config: &'c Config,
    policy: &'c Policy,
    /// For each tier, whether a key that is not disabled is of it.
    used: Vec<bool>,
}

/// The limits that one table holds: as written, and compiled.
struct Owner<'c> {
    written: &'c [model::Limit],
    compiled: Range<usize>,
    /// The only tiers whose requests meet them; absent: any.
    tiers: Option<Vec<TierIndex>>,
    /// What it is called in a message.
    name: String,
}

fn used_tiers(policy: &Policy) -> Vec<bool> {
    let mut used = vec![false; policy.tiers.len()];
    for record in policy.keys.records().filter(|record| !record.is_disabled()) {
        used[policy.consumers[record.consumer()].tier] = true;
    }
    used
}

impl<'c> View<'c> {
    /// A keys file without a consumer is one that is yet to be filled.
    fn tiers_without_keys(&self) -> Vec<Problem> {
        if self.policy.consumers.is_empty() {
            return Vec::new();
        }
        let unused = self.config.tiers.iter().filter(|tier| {
            let index = self.policy.tiers.iter().position(|known| *known.name == *tier.name.value);
            index.is_some_and(|index| index != ANONYMOUS && !self.used[index])
        });
        let warning = |tier: &model::Tier| {
            Problem::warning(tier.name.at, format!("no key is of the tier \"{}\"", tier.name.value))
                .hint("give a consumer this tier in the keys file, or remove it")
        };
        unused.map(warning).collect()
    }

    fn routes_of_nobody(&self, found: &mut Vec<Problem>) {
        for (route, written) in self.policy.routes.iter().zip(&self.config.routes) {
            let Some(tiers) = &route.tiers else { continue };
            let name = &written.name.value;
            let admits_anonymous = tiers.contains(&ANONYMOUS);
            let keys_matter = !self.policy.consumers.is_empty();
            let (message, hint) = if route.auth == RouteAuth::None && !admits_anonymous {
                let message =
                    format!("nobody can call \"{name}\": without a look at the key every caller is anonymous");
                (message, "remove `auth = \"none\"`, or add \"anonymous\" to `tiers`")
            } else if route.auth == RouteAuth::Required && tiers.iter().all(|tier| *tier == ANONYMOUS) {
                let message = format!("nobody can call \"{name}\": it needs a key, and is for callers without one");
                (message, "remove `auth`, or name other `tiers`")
            } else if keys_matter && !admits_anonymous && !tiers.iter().any(|tier| self.used[*tier]) {
                let message = format!("nobody can call \"{name}\": no key is of its tiers");
                (message, "give a consumer one of them in the keys file")
            } else {
                continue;
            };
            let at = written.tiers.as_ref().and_then(|tiers| tiers.first()).map_or(written.at, |tier| tier.at);
            found.push(Problem::warning(at, message).hint(hint));
        }
    }

    /// The tiers that a route lets in.
    fn callers(&self, route: usize) -> Vec<TierIndex> {
        let route = &self.policy.routes[route];
        if route.auth == RouteAuth::None {
            return vec![ANONYMOUS];
        }
        let may = |tier: &TierIndex| route.tiers.as_ref().is_none_or(|tiers| tiers.contains(tier));
        (0..self.policy.tiers.len()).filter(may).collect()
    }

    /// Costs over what limits that are not the route's own can hold; for its own that is an error.
    fn costs(&self, found: &mut Vec<Problem>) {
        let policy = self.policy;
        for (index, (route, written)) in policy.routes.iter().zip(&self.config.routes).enumerate() {
            let callers = self.callers(index);
            let mut told: Vec<&str> = Vec::new();
            let of_tiers = callers.iter().map(|tier| &policy.tiers[*tier].limits);
            let of_layers = of_tiers.filter(|_| !route.skip.contains(&Layer::Key));
            let address = Some(&policy.address_limits).filter(|_| !route.skip.contains(&Layer::Ip));
            for range in of_layers.chain(address).chain([&policy.custom_limits]) {
                for limit in &policy.limits[range.clone()] {
                    let meets =
                        limit.tiers.as_ref().is_none_or(|tiers| tiers.iter().any(|tier| callers.contains(tier)));
                    let is_over = limit.counts == Counts::Cost && route.cost > limit.meter.quota.capacity;
                    if meets && is_over && !told.contains(&&*limit.name) {
                        told.push(&limit.name);
                        found.push(rarely_fits(written, route.cost, limit));
                    }
                }
            }
        }
    }

    /// Every table with limits.
    fn owners(&self) -> Vec<Owner<'c>> {
        let (config, policy) = (self.config, self.policy);
        let mut owners = vec![
            Owner {
                written: &config.client_ip.limits,
                compiled: policy.address_limits.clone(),
                tiers: None,
                name: "[client_ip]".to_owned(),
            },
            Owner {
                written: &config.limits,
                compiled: policy.custom_limits.clone(),
                tiers: None,
                name: "[[limits]]".to_owned(),
            },
        ];
        for (index, tier) in policy.tiers.iter().enumerate() {
            let written = config.tiers.iter().find(|written| *written.name.value == *tier.name);
            owners.extend(written.map(|written| Owner {
                written: &written.limits,
                compiled: tier.limits.clone(),
                tiers: Some(vec![index]),
                name: format!("the tier \"{}\"", tier.name),
            }));
        }
        for (consumer, written) in policy.consumers.iter().zip(&config.consumers) {
            if let (Some(compiled), Some(limits)) = (&consumer.limits, &written.limits) {
                let name = format!("the consumer \"{}\"", consumer.name);
                let (compiled, tiers) = (compiled.clone(), Some(vec![consumer.tier]));
                owners.push(Owner { written: limits, compiled, tiers, name });
            }
        }
        for (index, (route, written)) in policy.routes.iter().zip(&config.routes).enumerate() {
            owners.push(Owner {
                written: &written.limits,
                compiled: route.limits.clone(),
                tiers: Some(self.callers(index)),
                name: format!("the route \"{}\"", route.name),
            });
        }
        owners
    }

    fn limits_that_never_apply(&self, owner: &Owner<'_>, found: &mut Vec<Problem>) {
        let Some(meeting) = &owner.tiers else { return };
        for (written, limit) in owner.written.iter().zip(&self.policy.limits[owner.compiled.clone()]) {
            let Some(tiers) = limit.tiers.as_ref().filter(|tiers| !tiers.is_empty()) else { continue };
            if !tiers.iter().any(|tier| meeting.contains(tier)) {
                let message =
                    format!("the limit \"{}\" never applies: {} has no callers of its tiers", limit.name, owner.name);
                found.push(Problem::warning(tiers_place(written), message).hint("name other `tiers`, or none"));
            }
        }
    }

    fn limits_that_never_bind(&self, owner: &Owner<'_>, found: &mut Vec<Problem>) {
        let policy = self.policy;
        let everywhere = |layer| policy.routes.iter().all(|route| !route.skip.contains(&layer));
        let address = if everywhere(Layer::Ip) { policy.address_limits.clone() } else { 0..0 };
        let mut others: Vec<usize> = owner.compiled.clone().collect();
        others.extend(address.chain(policy.custom_limits.clone()).filter(|index| !owner.compiled.contains(index)));
        if others.len() > MAX_COMPARED {
            return;
        }
        for (written, index) in owner.written.iter().zip(owner.compiled.clone()) {
            let limit = &policy.limits[index];
            let is_tighter = |other: &usize| {
                let known = &policy.limits[*other];
                *other != index
                    && dominance::always_first(known, limit)
                    && (index > *other || !dominance::always_first(limit, known))
            };
            if let Some(other) = others.iter().find(|other| is_tighter(other)) {
                let other = &policy.limits[*other].name;
                let message = format!("the limit \"{}\" can never refuse: \"{other}\" always does first", limit.name);
                let hint = "remove it, or count it by something else (`per`)";
                found.push(Problem::warning(written.rate.at, message).hint(hint));
            }
        }
    }
}

fn tiers_place(limit: &model::Limit) -> Place {
    limit.tiers.as_ref().and_then(|tiers| tiers.first()).map_or(limit.at, |tier| tier.at)
}

fn rarely_fits(route: &model::Route, cost: i64, limit: &Limit) -> Problem {
    let quota = &limit.meter.quota;
    let holds = if quota.capacity == quota.count { "limit" } else { "burst or queue of the limit" };
    let message = format!(
        "the cost of \"{}\", {}, is more than the {holds} \"{}\" can ever hold, {}: its callers always get 429",
        route.name.value,
        thousandths(cost),
        limit.name,
        quota.capacity / UNIT
    );
    Problem::warning(route.cost.at, message)
        .hint("lower the cost, raise the limit, or let it count requests: counts = \"requests\"")
}
