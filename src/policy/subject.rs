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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use crate::policy::compile;
    use crate::policy::facts::{Draw, Facts};
    use http::{HeaderMap, HeaderValue};

    const MAIN: &str = r#"
[client_ip]
limits = [{ name = "ip", rate = "1/h" }, { name = "ip-route", rate = "1/h", per = ["route", "ip"] }]
[upstreams.api]
servers = ["127.0.0.1:9000"]
[tiers.free]
limits = [{ name = "free", rate = "1/h" }, { name = "free-ip", rate = "1/h", per = "ip" }]
[tiers.pro]
limits = [{ name = "pro", rate = "1/h" }]
[tiers.anonymous]
limits = [{ name = "guest", rate = "1/h" }]
[[routes]]
match = "GET /a/:id"
limits = [{ name = "a", rate = "1/h" }, { name = "a-id", rate = "1/h", per = ["subject", "param:id"] }]
[[routes]]
match = "*"
limits = [{ name = "rest", rate = "1/h", per = ["tier", "ip"] }, { name = "rest-free", rate = "1/h", tiers = ["free"] }]
[[limits]]
name = "method"
rate = "1/h"
per = ["method", "subject", "header:x-tenant"]
[[limits]]
name = "both"
rate = "1/h"
per = ["ip", "consumer"]
[[limits]]
name = "host"
rate = "1/h"
per = ["consumer", "host", "tier"]
[[limits]]
name = "all"
rate = "1/h"
per = ["global", "route"]
"#;
    const KEYS: &str = "[consumers.one]\ntier = \"free\"\n[consumers.two]\ntier = \"pro\"\n[consumers.own]\ntier = \"pro\"\n\
                        limits = [{ name = \"own\", rate = \"1/h\" }, { name = \"own-ip\", rate = \"1/h\", per = \"ip\" }]\n";

    fn policy() -> Policy {
        let loaded = load_text("test.toml", MAIN, Some(KEYS), &|_| None);
        assert!(!loaded.has_errors(), "{:?}", loaded.problems);
        let (policy, problems) = compile(&loaded.config.unwrap());
        policy.unwrap_or_else(|| panic!("{problems:?}"))
    }

    /// What a store knows a counter by.
    fn bytes(parts: &[Part<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        crate::charge::write_name("", parts, |piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn every_counter_that_a_request_of_the_caller_is_charged_to_is_found() {
        let policy = policy();
        let headers: HeaderMap =
            [(http::HeaderName::from_static("x-tenant"), HeaderValue::from_static("t"))].into_iter().collect();
        let group = IpAddr::from([203, 0, 113, 7]);
        let values = [("header:x-tenant", "t"), ("param:id", "7"), ("host", "h")];
        let values: Vec<_> = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut seen = std::collections::BTreeSet::new();
        for consumer in [None, Some(0), Some(1), Some(2)] {
            for route in [None, Some(0), Some(1)] {
                for draw in [Draw::Everything, Draw::WrongKey] {
                    let facts = Facts {
                        address: group,
                        group,
                        method: "POST",
                        host: "h",
                        route,
                        parameters: route.filter(|route| *route == 0).map(|_| ("id", "7")).into_iter().collect(),
                        consumer,
                        tier: consumer.map_or(ANONYMOUS, |index| policy.consumers[index].tier),
                        headers: &headers,
                    };
                    let subject = Subject { consumer, group: Some(group), values: values.clone() };
                    let counters = policy.counters_of(&subject).unwrap();
                    assert_eq!(counters.open.is_empty(), consumer.is_some(), "who else calls from there is not said");
                    let selection = policy.select(&facts, draw);
                    for (limit, charge) in selection.limits.iter().zip(&selection.charges) {
                        let name = &*policy.limits[*limit].name;
                        let is_found = counters
                            .found
                            .iter()
                            .any(|(found, parts)| found == limit && bytes(parts) == bytes(&charge.parts));
                        // What all callers share is nobody's.
                        assert_eq!(is_found, name != "all", "{name} of {consumer:?} on {route:?}");
                        seen.insert(name);
                    }
                }
            }
        }
        assert_eq!(seen.len(), 17, "{seen:?}");
    }

    #[test]
    fn of_an_address_alone_nothing_that_counts_consumers_is_found_and_what_is_not_said_is_told() {
        let policy = policy();
        let subject = Subject { group: Some(IpAddr::from([203, 0, 113, 7])), ..Subject::default() };
        let counters = policy.counters_of(&subject).unwrap();
        let names: std::collections::BTreeSet<_> =
            counters.found.iter().map(|(limit, _)| &*policy.limits[*limit].name).collect();
        for (name, expected) in [
            ("guest", true),
            ("free-ip", true),
            ("own-ip", true),
            ("free", false),
            ("own", false),
            ("rest-free", false),
        ] {
            assert_eq!(names.contains(name), expected, "{name}");
        }
        let open: Vec<_> =
            counters.open.iter().map(|(limit, tags)| (&*policy.limits[*limit].name, tags.as_slice())).collect();
        let expected: [(&str, &[&str]); 4] =
            [("a-id", &["param:id"]), ("method", &["header:x-tenant"]), ("both", &["consumer"]), ("host", &["host"])];
        assert_eq!(open, expected);
    }

    #[test]
    fn more_counters_than_the_bound_are_refused_and_not_cut() {
        let routes: String = (0..700).map(|route| format!("[[routes]]\nmatch = \"/{route}\"\n")).collect();
        let main = format!(
            "[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n{routes}[[limits]]\nname = \"each\"\nrate = \"1/h\"\nper = [\"ip\", \"route\", \"method\"]\n"
        );
        let policy = compile(&load_text("test.toml", &main, None, &|_| None).config.unwrap()).0.unwrap();
        let mut subject = Subject { group: Some(IpAddr::from([203, 0, 113, 7])), ..Subject::default() };
        assert_eq!(policy.counters_of(&subject).err(), Some(TooMany));
        subject.values.push(("method".to_owned(), "GET".to_owned()));
        // One for each route, one for requests of none, one of wrong keys.
        assert_eq!(policy.counters_of(&subject).unwrap().found.len(), 702);
    }
}
