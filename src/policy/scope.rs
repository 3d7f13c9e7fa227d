//! What splits a limit into counters: each scope's value for one request.
//!
//! A missing identity never means "no counter": a caller without a key is counted by address, a missing header or
//! parameter is the value `""`, one counter for all who lack it.

use super::Policy;
use super::facts::Facts;
use crate::charge::{Part, Parts};
use crate::config::model::Scope;
use http::HeaderMap;
use std::borrow::Cow;

/// One scope of a limit and its tag, so that values of different kinds never meet in one counter.
#[derive(Debug, PartialEq, Eq)]
pub struct Axis {
    scope: Scope,
    /// As configured: `header:x-tenant`.
    tag: Box<str>,
}

impl Axis {
    pub fn new(scope: Scope) -> Self {
        let tag = match &scope {
            Scope::Header(name) => format!("header:{name}"),
            Scope::Param(name) => format!("param:{name}"),
            Scope::Ip => "ip".to_owned(),
            Scope::Consumer | Scope::Subject => "consumer".to_owned(),
            Scope::Route => "route".to_owned(),
            Scope::Tier => "tier".to_owned(),
            Scope::Host => "host".to_owned(),
            Scope::Method => "method".to_owned(),
            Scope::Global => "global".to_owned(),
        };
        Self { scope, tag: tag.into_boxed_str() }
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The kind of its parts: `ip`, `consumer`, `header:x-tenant`.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

/// The values of `axes` for a request, in order.
pub fn parts<'a>(axes: &'a [Axis], facts: &'a Facts<'_>, policy: &'a Policy) -> Parts<'a> {
    axes.iter().map(|axis| part(axis, facts, policy)).collect()
}

fn part<'a>(axis: &'a Axis, facts: &'a Facts<'_>, policy: &'a Policy) -> Part<'a> {
    let named = |value: &'a [u8]| Part::Named(&axis.tag, value);
    match &axis.scope {
        Scope::Ip => Part::Address(facts.group),
        Scope::Consumer | Scope::Subject => match facts.consumer {
            Some(consumer) => named(policy.consumers[consumer].name.as_bytes()),
            None => Part::Address(facts.group),
        },
        Scope::Route => named(facts.route.map_or(b"", |route| policy.routes[route].name.as_bytes())),
        Scope::Tier => named(policy.tiers[facts.tier].name.as_bytes()),
        Scope::Host => named(facts.host.as_bytes()),
        Scope::Method => named(facts.method.as_bytes()),
        Scope::Global => named(b""),
        Scope::Header(name) => match header_value(facts.headers, name) {
            Cow::Borrowed(value) => named(value),
            Cow::Owned(value) => Part::Owned(Cow::Borrowed(&axis.tag), value.into_boxed_slice()),
        },
        Scope::Param(name) => {
            let value = facts.parameters.iter().find(|(parameter, _)| parameter == name);
            named(value.map_or(b"", |(_, value)| value.as_bytes()))
        }
    }
}

/// A header's value: whole, outer blanks trimmed, several lines joined by `,`; `""` when it is absent.
pub fn header_value<'a>(headers: &'a HeaderMap, name: &str) -> Cow<'a, [u8]> {
    let mut lines = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
    let Some(first) = lines.next() else { return Cow::Borrowed(b"") };
    let Some(second) = lines.next() else { return Cow::Borrowed(first) };
    let mut joined = [first, second].join(&b","[..]);
    for line in lines {
        joined.push(b',');
        joined.extend_from_slice(line);
    }
    Cow::Owned(joined)
}
