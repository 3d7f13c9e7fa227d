//! From configuration to policy: every reference resolved, every limit prepared, every problem collected.
//!
//! What needs the whole configuration is checked here: undefined tiers and upstreams, routes that can never be
//! reached, costs that can never fit, names of limits that would be equal.

use super::limit::Limit;
use super::limit_text::LimitText;
use super::names::Names;
use super::scope::Axis;
use super::{Consumer, Policy, Route, Tier, references, warnings};
use crate::algorithm::{self, Quota, UNIT};
use crate::charge::{Meter, OnError};
use crate::config::model::{self, Config, Counts, Layer, Located, Mode, Name, OnStoreError, PatternSegment, Scope};
use crate::config::{Problem, Severity};
use crate::request::caller::{KeyTable, NewKey};
use crate::request::client::AddressRules;
use crate::request::credential::Source;
use crate::request::route::{RouteSpec, Router};
use std::ops::Range;

/// The name of the limit behind `[auth].failures`.
pub const FAILURES: &str = "auth-failures";

/// Problems that are told: finding the lines of each in a large file takes time, and nobody reads a million.
const MAX_PROBLEMS: usize = 100;

/// Compiles a configuration. The policy is absent when any problem is an error.
pub fn compile(config: &Config) -> (Option<Policy>, Vec<Problem>) {
    let mut compiler = Compiler::new(config);
    let policy = compiler.policy();
    let failed = compiler.problems.iter().any(|problem| problem.severity == Severity::Error);
    let policy = policy.filter(|_| !failed);
    if let Some(policy) = &policy {
        compiler.problems.extend(warnings::warnings(config, policy));
    }
    (policy, bounded(compiler.problems))
}

/// The first problems, and how many there are beside them.
fn bounded(mut problems: Vec<Problem>) -> Vec<Problem> {
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    if let Some(last) = problems.last().map(|last| last.severity).filter(|_| more > 0) {
        problems.truncate(MAX_PROBLEMS);
        problems.push(Problem { severity: last, ..Problem::unplaced(format!("{more} more problems are not shown")) });
    }
    problems
}

struct Compiler<'c> {
    config: &'c Config,
    limits: Vec<Limit>,
    names: Names,
    tiers: Vec<Name>,
    problems: Vec<Problem>,
}

impl<'c> Compiler<'c> {
    fn new(config: &'c Config) -> Self {
        let written = config.tiers.iter().map(|tier| tier.name.value.as_str());
        let others = written.filter(|name| *name != "anonymous");
        let tiers = std::iter::once("anonymous").chain(others).map(Name::from).collect();
        Self { config, limits: Vec::new(), names: Names::new(&[FAILURES]), tiers, problems: Vec::new() }
    }

    fn policy(&mut self) -> Option<Policy> {
        let config = self.config;
        let address_limits = self.limits(&config.client_ip.limits, Layer::Ip, "ip", &[Scope::Ip]);
        let failures = self.failures();
        let tiers = self.tier_plans();
        let consumers = self.consumers();
        let routes = self.routes();
        let custom_limits = self.limits(&config.limits, Layer::Custom, "custom", &[Scope::Global]);
        self.check_costs(&routes);
        let router = self.router()?;
        Some(Policy {
            limits: std::mem::take(&mut self.limits),
            address_rules: AddressRules {
                trusted: config.client_ip.trusted_proxies.clone(),
                header: config.client_ip.header.clone(),
                ipv4_prefix: config.client_ip.ipv4_prefix,
                ipv6_prefix: config.client_ip.ipv6_prefix,
            },
            allow: config.client_ip.allow.clone(),
            deny: config.client_ip.deny.clone(),
            exempt: config.client_ip.exempt.clone(),
            paths: config.paths,
            sources: config.auth.sources.iter().map(Source::new).collect(),
            anonymous: config.auth.anonymous,
            forward_credentials: config.auth.forward_credentials,
            keys: self.keys(),
            consumers,
            tiers,
            router,
            routes,
            address_limits,
            custom_limits,
            failures,
        })
    }

    fn limits(&mut self, written: &[model::Limit], layer: Layer, owner: &str, per: &[Scope]) -> Range<usize> {
        let start = self.limits.len();
        for limit in written {
            let compiled = self.limit(limit, layer, owner, per);
            self.limits.push(compiled);
        }
        start..self.limits.len()
    }

    fn limit(&mut self, written: &model::Limit, layer: Layer, owner: &str, per: &[Scope]) -> Limit {
        let name = self.names.name(written, owner, &mut self.problems);
        let rate = &written.rate.value;
        let count = rate.count * UNIT;
        let capacity = written.burst.as_ref().or(written.queue.as_ref()).map_or(count, |size| size.value * UNIT);
        let max_wait = written.max_wait.as_ref().map(|wait| wait.value);
        let quota = Quota { count, window: rate.window, capacity, max_wait };
        let algorithm = written.algorithm.value;
        if let Err(reason) = algorithm.check(&quota) {
            self.problems.push(Problem::error(written.rate.at, reason));
        }
        Limit {
            layer,
            meter: self.meter(&name, algorithm, quota, written.on_store_error),
            text: LimitText::new(&name, &quota, algorithm),
            name: Name::from(name),
            per: written.per.as_ref().map_or(per, |per| &per.value).iter().cloned().map(Axis::new).collect(),
            counts: written.counts,
            tiers: references::tiers(written.tiers.as_ref(), &self.tiers, &mut self.problems),
            mode: written.mode,
            expose: written.expose,
            when: written.when.clone(),
        }
    }

    /// The arithmetic of a limit, and what stands in for it where the store can fail.
    fn meter(
        &self,
        name: &str,
        algorithm: &'static dyn algorithm::Algorithm,
        quota: Quota,
        on_error: Option<OnStoreError>,
    ) -> Meter {
        let redis = self.config.store.redis.as_ref();
        let on_error = match on_error.or(redis.map(|redis| redis.on_error)).unwrap_or(OnStoreError::Local) {
            OnStoreError::Local => OnError::Local,
            OnStoreError::Open => OnError::Open,
            OnStoreError::Closed => OnError::Closed,
        };
        let identity = format!("{name}\u{1f}{}\u{1f}{:?}", algorithm.name(), quota.window);
        let meter = |quota, local| Meter {
            identity: identity.as_str().into(),
            name: name.into(),
            algorithm,
            quota,
            on_error,
            local,
        };
        let local = redis.map(|redis| Box::new(meter(share(&quota, redis.instances), None)));
        meter(quota, local)
    }

    fn failures(&mut self) -> usize {
        let rate = &self.config.auth.failures.value;
        let count = rate.count * UNIT;
        let quota = Quota { count, window: rate.window, capacity: count, max_wait: None };
        let meter = self.meter(FAILURES, &algorithm::SlidingWindow, quota, None);
        self.limits.push(Limit {
            layer: Layer::Ip,
            meter,
            text: LimitText::new(FAILURES, &quota, &algorithm::SlidingWindow),
            name: Name::from(FAILURES),
            per: vec![Axis::new(Scope::Ip)],
            counts: Counts::Requests,
            tiers: None,
            mode: Mode::Enforce,
            expose: true,
            when: None,
        });
        self.limits.len() - 1
    }

    fn tier_plans(&mut self) -> Vec<Tier> {
        let config = self.config;
        let mut plans = Vec::new();
        for name in self.tiers.clone() {
            let written = config.tiers.iter().find(|tier| tier.name.value == *name);
            let limits = written.map_or(&[][..], |tier| &tier.limits[..]);
            let per = if *name == *"anonymous" { Scope::Ip } else { Scope::Consumer };
            let limits = self.limits(limits, Layer::Key, &name, &[per]);
            plans.push(Tier { name, limits });
        }
        plans
    }

    fn consumers(&mut self) -> Vec<Consumer> {
        let mut consumers = Vec::with_capacity(self.config.consumers.len());
        for written in &self.config.consumers {
            let tier = references::tier(&written.tier, &self.tiers, &mut self.problems).unwrap_or_default();
            let name = &written.name.value;
            let limits = written.limits.as_ref();
            let limits = limits.map(|limits| self.limits(limits, Layer::Key, name, &[Scope::Consumer]));
            consumers.push(Consumer { name: Name::from(name.as_str()), tier, limits });
        }
        consumers
    }

    fn keys(&mut self) -> KeyTable {
        let keys = self.config.consumers.iter().enumerate().flat_map(|(consumer, written)| {
            written.keys.iter().map(move |key| NewKey {
                digest: key.sha256.value,
                consumer,
                id: key.id.value.as_str().into(),
                not_before: key.not_before,
                expires: key.expires,
                routes: key.routes.as_ref().map(|routes| routes.iter().map(|route| route.value.clone()).collect()),
                allow_ips: key.allow_ips.clone(),
                disabled: key.disabled,
            })
        });
        KeyTable::build(keys.collect()).unwrap_or_else(|duplicates| {
            let count = duplicates.len();
            self.problems.push(Problem::unplaced(format!("{count} keys have the digest of another key")));
            KeyTable::build(Vec::new()).expect("no two of no keys are equal")
        })
    }

    fn routes(&mut self) -> Vec<Route> {
        let config = self.config;
        if config.routes.is_empty() {
            self.problems.push(
                Problem::unplaced("there is no route, so every request would get 404")
                    .hint("add a [[routes]] table: match = \"*\" takes every request"),
            );
        }
        config.routes.iter().map(|route| self.route(route)).collect()
    }

    fn route(&mut self, written: &model::Route) -> Route {
        let name = &written.name.value;
        let limits = self.limits(&written.limits, Layer::Endpoint, name, &[Scope::Subject, Scope::Route]);
        self.check_parameters(written, &limits);
        Route {
            name: Name::from(name.as_str()),
            upstream: self.upstream_of(written),
            cost: written.cost.value,
            auth: written.auth,
            tiers: references::tiers(written.tiers.as_ref(), &self.tiers, &mut self.problems),
            skip: written.skip.clone(),
            timeout: written.timeout,
            strip_prefix: written.strip_prefix.as_ref().map(|prefix| prefix.value.trim_end_matches('/').to_owned()),
            limits,
        }
    }

    fn upstream_of(&mut self, route: &model::Route) -> usize {
        let upstreams = &self.config.upstreams;
        match &route.upstream {
            Some(name) => references::upstream(name, upstreams, &mut self.problems).unwrap_or_default(),
            None if upstreams.len() == 1 => 0,
            None => {
                let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name.value.as_str()).collect();
                self.problems.push(match names.as_slice() {
                    [] => Problem::error(route.at, "there is no upstream to forward this route to")
                        .hint("add [upstreams.NAME] with servers = [\"host:port\"]"),
                    names => Problem::error(route.at, "this route does not say which upstream it goes to")
                        .hint(format!("add upstream = \"NAME\", one of: {}", names.join(", "))),
                });
                0
            }
        }
    }

    /// A route's own limit can only split by parameters that all its patterns have.
    fn check_parameters(&mut self, route: &model::Route, limits: &Range<usize>) {
        for (written, _) in route.limits.iter().zip(limits.clone()) {
            for scope in written.per.iter().flat_map(|per| &per.value) {
                let Scope::Param(name) = scope else { continue };
                if route.matches.iter().all(|pattern| has_parameter(&pattern.value, name)) {
                    continue;
                }
                let at = written.per.as_ref().map_or(written.at, |per| per.at);
                self.problems.push(
                    Problem::error(at, format!("route \"{}\" has no parameter \"{name}\"", route.name.value))
                        .hint("name a parameter (`:name`) that is in every `match` of the route"),
                );
            }
        }
    }

    fn router(&mut self) -> Option<Router> {
        let specs: Vec<RouteSpec<'_>> = self.config.routes.iter().map(route_spec).collect();
        match Router::build(&specs) {
            Ok(router) => Some(router),
            Err(conflicts) => {
                for conflict in conflicts {
                    let route = &self.config.routes[conflict.route];
                    let pattern = &route.matches[conflict.pattern];
                    let other = &self.config.routes[conflict.with].name.value;
                    self.problems.push(
                        Problem::error(
                            pattern.at,
                            format!(
                                "\"{}\" can never be reached: route \"{other}\" takes the same requests",
                                pattern.value.text
                            ),
                        )
                        .hint("remove one of them, or give them different hosts or methods"),
                    );
                }
                None
            }
        }
    }

    /// A route's own limits; of the others `warnings` tells.
    fn check_costs(&mut self, routes: &[Route]) {
        let mut found = Vec::new();
        for (route, written) in routes.iter().zip(&self.config.routes) {
            let own = &self.limits[route.limits.clone()];
            let is_over = |limit: &&Limit| limit.counts == Counts::Cost && route.cost > limit.meter.quota.capacity;
            found.extend(own.iter().filter(is_over).map(|limit| never_fits(&written.cost, &limit.name)));
        }
        self.problems.extend(found);
    }
}

/// A gateway's share of a quota when `instances` share it: rounded up to whole requests, at least one.
fn share(quota: &Quota, instances: u32) -> Quota {
    let instances = i64::from(instances.max(1));
    let part = |units: i64| ((units / UNIT + instances - 1) / instances).max(1) * UNIT;
    Quota { count: part(quota.count), capacity: part(quota.capacity), ..*quota }
}

fn never_fits(cost: &Located<i64>, limit: &str) -> Problem {
    Problem::error(cost.at, format!("this cost can never fit the route's own limit \"{limit}\""))
        .hint("lower the cost, raise the limit, or let the limit count requests: counts = \"requests\"")
}

fn has_parameter(pattern: &model::RoutePattern, name: &str) -> bool {
    pattern.path.iter().flatten().any(|segment| match segment {
        PatternSegment::Parameter(parameter) | PatternSegment::Rest(parameter) => parameter == name,
        PatternSegment::Literal(_) => false,
    })
}

fn route_spec(route: &model::Route) -> RouteSpec<'_> {
    RouteSpec {
        hosts: route.hosts.iter().map(|host| host.value.as_str()).collect(),
        patterns: route.matches.iter().map(|pattern| &pattern.value).collect(),
    }
}
