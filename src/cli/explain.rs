//! `explain`: what the gateway would make of one request, and why.
//!
//! The request goes through the same assessment, selection and decision as one that arrives, on fresh counters in memory.
//! Here is only told what came out. A key is named by its id, so that no secret stands in an argument. Opens no port.

mod answer;
mod route;
mod text;

use super::output::{self, fail, report_problems};
use super::{EXIT_USAGE, File};
use crate::algorithm::{UNIT, Units};
use crate::config::model::{Config, Counts, Mode, RouteAuth};
use crate::config::problem::nearest;
use crate::limiter::assess::{self, Address, Assessment, Claim, Inputs};
use crate::load::{self, Source};
use crate::policy::Policy;
use crate::policy::facts::Draw;
use crate::request::client::contains;
use crate::store::redis::counter_key;
use crate::time::Clock;
use answer::Answer;
use clap::Args;
use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use route::{Asked, Beaten};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

/// What keys in Redis begin with when no configuration says so.
const DEFAULT_PREFIX: &str = "sluicegate";

/// Keys among whose ids the nearest is looked for; it takes too long among more.
const MAX_SUGGESTED: usize = 10_000;

/// Tells what happens to a request.
#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    file: File,
    /// The request's method, such as GET
    method: String,
    /// Its target as sent: a path with its query, or a whole URL
    target: String,
    /// The address that it comes from
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    ip: IpAddr,
    /// The id of the key that it shows (never the key itself)
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Its host, where the target does not say it
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// A header; may be given several times
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Explanation {
    method: String,
    target: String,
    host: Option<String>,
    /// As routes see it.
    path: Option<String>,
    /// As it goes upstream, before `strip_prefix`.
    forwarded_path: Option<String>,
    route: Option<RouteView>,
    caller: CallerView,
    cost: Option<f64>,
    /// What the request draws on: `all limits`, `the address`, …
    draws_on: &'static str,
    limits: Vec<LimitView>,
    answer: Answer,
}

#[derive(Debug, Serialize)]
struct RouteView {
    name: String,
    /// The pattern that took it.
    pattern: String,
    beats: Vec<Beaten>,
    parameters: Vec<(String, String)>,
    upstream: String,
    skips: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct CallerView {
    address: IpAddr,
    /// The network that it counts as.
    counts_as: IpAddr,
    /// How the address was found.
    address_from: &'static str,
    exempt: bool,
    key_id: Option<String>,
    consumer: Option<String>,
    tier: String,
    tier_because: String,
}

#[derive(Debug, Serialize)]
struct LimitView {
    name: String,
    layer: &'static str,
    /// The counter as a key of Redis; in memory it is the same counter without a name.
    counter: String,
    cost: f64,
    algorithm: &'static str,
    quota: String,
    /// What fits at once, where that is not the count.
    burst: Option<String>,
    mode: &'static str,
}

impl Explain {
    pub fn run(self) -> ExitCode {
        let headers = match self.headers() {
            Ok(headers) => headers,
            Err(message) => return fail(&message, EXIT_USAGE),
        };
        let checked = load::check(&Source::File(self.file.clone().path()), 1);
        let (Some(config), Some(snapshot)) = (&checked.config, &checked.snapshot) else {
            return report_problems(&checked);
        };
        let key = match self.key(&snapshot.policy) {
            Ok(key) => key,
            Err(message) => return fail(&message, 1),
        };
        let explanation = self.explain(config, &snapshot.policy, &headers, key);
        if self.json { output::print_json(&explanation) } else { output::print(&text::of(&explanation)) }
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let host = self.host.iter().map(|host| format!("{HOST}: {host}"));
        for line in host.chain(self.headers.iter().cloned()) {
            let (name, value) = line.split_once(':').ok_or("a header is written \"NAME: VALUE\"")?;
            let name = HeaderName::from_bytes(name.trim().as_bytes());
            let value = HeaderValue::from_str(value.trim());
            match (name, value) {
                (Ok(name), Ok(value)) => headers.append(name, value),
                _ => return Err("a header is written \"NAME: VALUE\", in visible ASCII".to_owned()),
            };
        }
        Ok(headers)
    }

    fn key(&self, policy: &Policy) -> Result<Option<usize>, String> {
        let Some(id) = &self.key_id else { return Ok(None) };
        policy.keys.find_id(id).map(Some).ok_or_else(|| {
            let ids = policy.keys.records().take(MAX_SUGGESTED).map(|record| record.id());
            let hint = nearest(id, ids).map(|near| format!("\n  help: did you mean \"{near}\"?"));
            format!("no key has the id \"{}\"{}", id.escape_default(), hint.unwrap_or_default())
        })
    }

    fn explain(&self, config: &Config, policy: &Policy, headers: &HeaderMap, key: Option<usize>) -> Explanation {
        // Only HTTP/1.0 may leave its host unsaid.
        let version = if headers.contains_key(HOST) { Version::HTTP_11 } else { Version::HTTP_10 };
        let (method, target) = (self.method.as_str(), self.target.as_bytes());
        let inputs = Inputs { peer: self.ip, method, version, target, authority: None, headers };
        let now = Clock::wall();
        let address = assess::address(policy, &inputs);
        let assessment = assess::assess_as(policy, &inputs, &address, key.map_or(Claim::Sent, Claim::Key), now);
        let known = address.as_ref().ok();
        let asked = known.map(|address| asked(&inputs, address, policy));
        Explanation {
            method: self.method.clone(),
            target: self.target.clone(),
            host: known.map(|address| address.target.host.to_string()).filter(|host| !host.is_empty()),
            path: known.map(|address| address.path.matching().to_owned()),
            forwarded_path: known.map(|address| address.path.forward().to_owned()),
            route: assessment.facts.route.and_then(|route| route_view(config, policy, route, asked?, &assessment)),
            caller: caller(policy, &assessment, &inputs),
            cost: assessment.facts.route.map(|route| cost(policy.routes[route].cost)),
            draws_on: draws_on(assessment.draw),
            limits: limits(config, policy, &assessment),
            answer: answer::of(config, policy, &assessment, asked, now),
        }
    }
}

/// What the router was asked: a preflight stands for the request that it is about.
fn asked<'r>(inputs: &Inputs<'r>, address: &'r Address<'r>, policy: &Policy) -> Asked<'r> {
    let (host, path) = (&*address.target.host, address.path.matching());
    let wanted = assess::preflight_method(inputs).filter(|method| policy.router.find(host, method, path).is_some());
    Asked { host, method: wanted.unwrap_or(inputs.method), path }
}

fn route_view(
    config: &Config,
    policy: &Policy,
    index: usize,
    asked: Asked<'_>,
    assessment: &Assessment<'_>,
) -> Option<RouteView> {
    let route = &policy.routes[index];
    let (pattern, beats) = route::winner(config, asked)?;
    let parameters = assessment.facts.parameters.iter();
    Some(RouteView {
        name: route.name.to_string(),
        pattern,
        beats,
        parameters: parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        upstream: config.upstreams[route.upstream].name.value.clone(),
        skips: route.skip.iter().map(|layer| layer.name()).collect(),
    })
}

fn caller(policy: &Policy, assessment: &Assessment<'_>, inputs: &Inputs<'_>) -> CallerView {
    let facts = &assessment.facts;
    let consumer = facts.consumer.map(|consumer| policy.consumers[consumer].name.to_string());
    let because = match (&consumer, facts.route, assessment.auth_failure) {
        (Some(consumer), ..) => format!("the tier of {consumer}"),
        (None, _, Some(reason)) if reason != "missing" => {
            format!("the key does not count: {}", reason.replace('_', " "))
        }
        (None, Some(route), _) if policy.routes[route].auth == RouteAuth::None => {
            "the route does not look at keys".to_owned()
        }
        (None, None, _) => "no key was looked at".to_owned(),
        _ => "there is no key".to_owned(),
    };
    CallerView {
        address: facts.address,
        counts_as: facts.group,
        address_from: match (assessment.trusted_peer, facts.address == inputs.peer.to_canonical()) {
            (true, false) => "what a trusted proxy says",
            _ => "the other end of the connection",
        },
        exempt: contains(&policy.exempt, facts.address),
        key_id: assessment.key.map(|key| policy.keys.record(key).id().to_owned()),
        consumer,
        tier: policy.tiers[facts.tier].name.to_string(),
        tier_because: because,
    }
}

fn draws_on(draw: Draw) -> &'static str {
    match draw {
        Draw::Everything => "every limit that applies",
        Draw::Address => "the limits of its address alone",
        Draw::WrongKey => "the limits of its address, and its budget of wrong keys",
        Draw::Nothing => "no limit",
    }
}

fn limits(config: &Config, policy: &Policy, assessment: &Assessment<'_>) -> Vec<LimitView> {
    let prefix = config.store.redis.as_ref().map_or(DEFAULT_PREFIX, |redis| &redis.prefix);
    let selection = policy.select(&assessment.facts, assessment.draw);
    let charges = selection.limits.iter().zip(&selection.charges);
    let view = |(index, charge): (&usize, &crate::charge::Charge<'_>)| {
        let limit = &policy.limits[*index];
        let quota = &limit.meter.quota;
        LimitView {
            name: limit.name.to_string(),
            layer: limit.layer.name(),
            counter: counter_key(prefix, &limit.meter, &charge.parts),
            cost: cost(charge.cost),
            algorithm: limit.meter.algorithm.name(),
            quota: units(&limit.text.rate, limit.counts),
            burst: (quota.capacity != quota.count).then(|| (quota.capacity / UNIT).to_string()),
            mode: match limit.mode {
                Mode::Enforce => "enforce",
                Mode::Shadow => "shadow",
            },
        }
    };
    charges.map(view).collect()
}

/// As people write it: thousandths are exact in it up to the largest cost.
fn cost(units: Units) -> f64 {
    units as f64 / UNIT as f64
}

/// `100 requests per minute`; where cost is counted a request may be more than one of them.
fn units(rate: &str, counts: Counts) -> String {
    match counts {
        Counts::Cost => rate.to_owned(),
        Counts::Requests => format!("{rate}, whatever they cost"),
    }
}
