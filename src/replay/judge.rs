//! The gateway's own decision on a recorded request: the same assessment, selection and arithmetic, in a store of its own.
//!
//! What a log cannot repeat is filled in from what it says: a key is known by its id, a consumer by its name, and a
//! request that was invalid then is so again. A preflight is not told apart in logs: `OPTIONS` without a caller is one.

use super::condition::Part;
use super::record::Record;
use crate::config::model::{Config, Name, Scope};
use crate::limiter::assess::{Claim, Inputs, address, assess_as};
use crate::limiter::rejection::Rejection;
use crate::limiter::{Decision, decide};
use crate::metrics::UNMATCHED;
use crate::policy::{ANONYMOUS, Policy};
use crate::store::memory::{MemoryStore, SWEEP_BUDGET};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;

/// Decisions between two sweeps of the store.
const SWEEP_EVERY: u32 = 16_384;

/// Methods that a preflight may have asked for, in the order in which they are tried.
const ASKED_FOR: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// A policy and its counters.
pub struct Judge {
    pub policy: Policy,
    store: MemoryStore,
    keys: HashMap<Box<str>, usize>,
    consumers: HashMap<Name, usize>,
    /// For routes of named hosts: one of them.
    hosts: HashMap<Name, String>,
    headers: Vec<HeaderName>,
    assumed: Assumed,
    since_sweep: Cell<u32>,
}

/// What an operator says of all requests, where the log says nothing.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    pub host: Option<String>,
    /// The tier of callers whose name the log does not have.
    pub tier: Option<usize>,
}

/// How a request fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted,
    /// By a limit.
    Refused,
    /// For another reason, by its `error` word.
    Rejected(&'static str),
}

/// Who has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    /// An index into the policy's consumers.
    Consumer(usize),
    /// The network of an address.
    Address(IpAddr),
}

/// A decision and whom it concerns.
pub struct Ruling {
    pub outcome: Outcome,
    /// The limit that refused; an index into the policy's.
    pub limit: Option<usize>,
    pub route: Option<usize>,
    pub tier: usize,
    pub caller: Caller,
    pub decision: Decision,
}

impl Judge {
    pub fn new(policy: Policy, config: &Config, headers: &[HeaderName], assumed: Assumed) -> Self {
        let host_of = |route: &crate::config::model::Route| {
            let host = route.hosts.first()?.value.replacen('*', "any", 1);
            Some((Name::from(route.name.value.as_str()), host))
        };
        Self {
            keys: (0..policy.keys.len()).map(|index| (policy.keys.record(index).id().into(), index)).collect(),
            consumers: policy.consumers.iter().enumerate().map(|(index, each)| (each.name.clone(), index)).collect(),
            hosts: config.routes.iter().filter_map(host_of).collect(),
            store: MemoryStore::new(usize::try_from(config.store.max_entries).unwrap_or(usize::MAX)),
            headers: headers.to_vec(),
            policy,
            assumed,
            since_sweep: Cell::new(0),
        }
    }

    /// Decides a request at its instant.
    pub fn decide(&self, record: &Record) -> Ruling {
        let policy = &self.policy;
        let claim = self.claim(record);
        let host = self.host(record);
        let headers = self.header_map(record, claim, host);
        let inputs = Inputs {
            peer: record.address,
            method: &record.method,
            // The one version that needs no Host.
            version: Version::HTTP_10,
            target: record.path.as_bytes(),
            authority: (!host.is_empty()).then_some(host.as_bytes()),
            headers: &headers,
        };
        let address = address(policy, &inputs);
        let mut assessment = assess_as(policy, &inputs, &address, claim, record.at);
        if record.then.was_invalid {
            assessment.reject(Rejection::BadRequest("The request was not valid."));
        }
        let decided = decide(policy, &assessment.facts, assessment.draw, &self.store, record.at).now_or_never();
        let (decision, _receipt) =
            decided.and_then(Result::ok).expect("a store in memory answers at once and never fails");
        self.sweep(record);
        let refused = (!decision.admitted).then_some(Outcome::Refused);
        let rejected = assessment.rejection.map(|rejection| Outcome::Rejected(rejection.parts().1));
        Ruling {
            outcome: refused.or(rejected).unwrap_or(Outcome::Accepted),
            limit: refused.and_then(|_| refusing(&decision, policy)),
            route: assessment.facts.route,
            tier: assessment.facts.tier,
            caller: match assessment.facts.consumer {
                Some(consumer) => Caller::Consumer(consumer),
                None => Caller::Address(assessment.facts.group),
            },
            decision,
        }
    }

    /// Whom the log names. A key or a consumer that the policy does not have would be told so by the gateway.
    fn claim(&self, record: &Record) -> Claim {
        if record.then.key_was_wrong {
            return Claim::WrongKey;
        }
        if let Some(key) = self.keys.get(&*record.key_id) {
            return Claim::Key(*key);
        }
        if let Some(consumer) = self.consumers.get(&*record.consumer) {
            return Claim::Consumer(*consumer);
        }
        match self.assumed.tier {
            _ if !record.key_id.is_empty() => Claim::WrongKey,
            Some(tier) => Claim::Tier(tier),
            None => Claim::Nobody,
        }
    }

    fn host<'a>(&'a self, record: &'a Record) -> &'a str {
        if !record.host.is_empty() {
            return &record.host;
        }
        let of_route = self.hosts.get(&*record.route).map(String::as_str);
        of_route.or(self.assumed.host.as_deref()).unwrap_or_default()
    }

    fn header_map(&self, record: &Record, claim: Claim, host: &str) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (index, value) in &record.headers {
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                map.append(self.headers[*index].clone(), value);
            }
        }
        if record.method == "OPTIONS" && matches!(claim, Claim::Nobody | Claim::Tier(_)) {
            let takes = |method: &&&str| self.policy.router.find(host, method, &record.path).is_some();
            let asked = ASKED_FOR.iter().find(takes).unwrap_or(&"OPTIONS");
            map.insert(header::ORIGIN, HeaderValue::from_static("null"));
            map.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static(asked));
        }
        map
    }

    fn sweep(&self, record: &Record) {
        self.since_sweep.set(self.since_sweep.get() + 1);
        if self.since_sweep.get() == SWEEP_EVERY {
            self.since_sweep.set(0);
            self.store.sweep(record.at, SWEEP_BUDGET);
        }
    }

    /// Counters that were dropped because the store was full.
    pub fn evictions(&self) -> u64 {
        self.store.evictions()
    }

    /// Names of limits that depend on a header which the log does not tell.
    pub fn blind_limits(&self) -> Vec<&str> {
        let told = |name: &str| self.headers.iter().any(|header| header.as_str() == name);
        let is_blind = |limit: &&crate::policy::limit::Limit| {
            let by_scope = limit.per.iter().any(|axis| matches!(axis.scope(), Scope::Header(name) if !told(name)));
            by_scope || limit.when.as_ref().is_some_and(|when| when.headers.iter().any(|(name, _)| !told(name)))
        };
        self.policy.limits.iter().filter(is_blind).map(|limit| &*limit.name).collect()
    }

    /// The name in a condition that this policy does not have.
    pub fn unknown_name<'c>(&self, part: &'c Part) -> Option<&'c str> {
        let policy = &self.policy;
        let (name, is_known) = match part {
            Part::All => return None,
            Part::Tier(name) => (name, tier_of(policy, name).is_some()),
            Part::Route(name) => (name, *name == UNMATCHED || policy.routes.iter().any(|route| *route.name == **name)),
            Part::Limit(name) => (name, policy.limits.iter().any(|limit| *limit.name == **name)),
        };
        (!is_known).then_some(name)
    }

    /// The caller's name.
    pub fn name_of(&self, caller: Caller) -> String {
        match caller {
            Caller::Consumer(consumer) => self.policy.consumers[consumer].name.to_string(),
            Caller::Address(address) => {
                let rules = &self.policy.address_rules;
                let (prefix, whole) =
                    if address.is_ipv4() { (rules.ipv4_prefix, 32) } else { (rules.ipv6_prefix, 128) };
                if prefix == whole { address.to_string() } else { format!("{address}/{prefix}") }
            }
        }
    }
}

/// The index of a tier by its name.
pub fn tier_of(policy: &Policy, name: &str) -> Option<usize> {
    debug_assert!(policy.tiers[ANONYMOUS].name.as_ref() == "anonymous");
    policy.tiers.iter().position(|tier| *tier.name == *name)
}

/// The limit that an answer would name.
fn refusing(decision: &Decision, policy: &Policy) -> Option<usize> {
    let verdict = decision.verdict(policy);
    let refusing = verdict.refusing()?.limit;
    let mut indices = decision.statuses(policy).map(|(index, _)| index);
    indices.find(|index| std::ptr::eq(&raw const policy.limits[*index], &raw const *refusing))
}
