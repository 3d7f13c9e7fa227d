//! The background work of upstreams: checks, names, and the metric of who is healthy.
//!
//! All of it belongs to the configuration in force: [`Watch::follow`] ends what an earlier one had started, by dropping it,
//! and starts anew. What was found out lives with the servers and not here, so a reload forgets nothing. There is one task
//! for each address that is checked, one for each upstream that has names or checks, one for the metric; a check runs
//! alone for its address and is bounded by its timeout.

use super::Upstream;
use super::names::REFRESH_INTERVAL;
use crate::config::model::HealthCheck;
use crate::metrics::Metrics;
use crate::proxy::snapshot::Snapshot;
use crate::time::Clock;
use crate::upstream::Member;
use crate::upstream::health::Thresholds;
use parking_lot::Mutex;
use pingora::connectors::ConnectorOptions;
use pingora::connectors::http::Connector;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;

/// The first check of a server, and the first fresh look at names, come within this time, each at a moment of its own, so
/// that many do not come at once. It is short, because a reload begins anew.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

/// How often the metric is brought up to date with servers that are passed over.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Checks are made on connections of their own; none is kept.
const KEPT_CONNECTIONS: usize = 1;

/// The background work of the upstreams in force.
pub struct Watch {
    tools: Arc<Tools>,
    /// Dropping it ends all of it.
    tasks: Mutex<JoinSet<()>>,
}

/// What all tasks share.
struct Tools {
    clock: Clock,
    metrics: Arc<Metrics>,
    /// Made for the first check: it reads the authorities of the system.
    connector: OnceLock<Connector>,
    /// Upstream and server of each series of the metric. Nothing else is reported, so that a task which is just being ended
    /// cannot bring back the series of a server that is gone.
    reported: Mutex<HashSet<(String, String)>>,
}

impl Watch {
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        let tools = Tools { clock, metrics, connector: OnceLock::new(), reported: Mutex::default() };
        Self { tools: Arc::new(tools), tasks: Mutex::default() }
    }

    /// Looks after the upstreams of this snapshot, and no longer after those of the one before.
    pub fn follow(&self, snapshot: &Snapshot) {
        self.tools.report_only(&snapshot.upstreams);
        let mut tasks = JoinSet::new();
        for upstream in &snapshot.upstreams {
            if upstream.health.is_some() || upstream.has_names() {
                tasks.spawn(tend(upstream.clone(), self.tools.clone()));
            }
        }
        tasks.spawn(report_for_ever(snapshot.upstreams.clone(), self.tools.clone()));
        *self.tasks.lock() = tasks;
    }
}

impl Tools {
    /// Gives each server of these upstreams its series, and removes those of others.
    fn report_only(&self, upstreams: &[Arc<Upstream>]) {
        let series = upstreams.iter().flat_map(|upstream| {
            upstream.servers().into_iter().map(|server| (upstream.name.clone(), server.to_string()))
        });
        let series: HashSet<_> = series.collect();
        let mut reported = self.reported.lock();
        for (upstream, server) in reported.difference(&series) {
            self.metrics.upstream_server_gone(upstream, server);
        }
        *reported = series;
        drop(reported);
        upstreams.iter().for_each(|upstream| self.report(upstream));
    }

    fn report(&self, upstream: &Upstream) {
        let now = self.clock.now();
        let reported = self.reported.lock();
        for server in upstream.servers() {
            if reported.contains(&(upstream.name.clone(), server.to_string())) {
                self.metrics.upstream_server(&upstream.name, &server, upstream.pool.is_used(&server, now));
            }
        }
    }

    fn connector(&self) -> &Connector {
        self.connector.get_or_init(|| Connector::new(Some(ConnectorOptions::new(KEPT_CONNECTIONS))))
    }
}

async fn report_for_ever(upstreams: Vec<Arc<Upstream>>, tools: Arc<Tools>) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        upstreams.iter().for_each(|upstream| tools.report(upstream));
    }
}

/// Keeps one check running for each address of the upstream, and its names fresh.
async fn tend(upstream: Arc<Upstream>, tools: Arc<Tools>) {
    let mut checks = JoinSet::new();
    let mut checked = HashMap::new();
    let mut failing = HashSet::new();
    let mut wait = FIRST_WITHIN.mul_f64(fastrand::f64());
    loop {
        if let Some(rule) = &upstream.health {
            keep_checking(&upstream, rule, &tools, &mut checks, &mut checked);
        }
        if !upstream.has_names() {
            return std::future::pending().await;
        }
        tokio::time::sleep(wait).await;
        wait = REFRESH_INTERVAL;
        upstream.refresh(&mut failing).await;
    }
}

/// Starts checks of new members and ends those of members that are gone.
fn keep_checking(
    upstream: &Arc<Upstream>,
    rule: &HealthCheck,
    tools: &Arc<Tools>,
    checks: &mut JoinSet<()>,
    checked: &mut HashMap<(Arc<str>, SocketAddr), AbortHandle>,
) {
    let members = upstream.pool.members();
    let key = |member: &Member| (member.name.clone(), member.address);
    checked.retain(|checked, task| {
        let stays = members.iter().any(|member| key(member) == *checked);
        if !stays {
            task.abort();
        }
        stays
    });
    for member in members {
        checked
            .entry(key(&member))
            .or_insert_with(|| checks.spawn(check_for_ever(upstream.clone(), member, rule.clone(), tools.clone())));
    }
    // Those that were ended.
    while checks.try_join_next().is_some() {}
}

async fn check_for_ever(upstream: Arc<Upstream>, member: Arc<Member>, rule: HealthCheck, tools: Arc<Tools>) {
    let first = FIRST_WITHIN.min(rule.interval.to_duration());
    tokio::time::sleep(first.mul_f64(fastrand::f64())).await;
    let mut ticks = tokio::time::interval(rule.interval.to_duration());
    // A check that takes longer than the interval is followed by the next at once, but never by several.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let thresholds = Thresholds { fall: rule.fall, rise: rule.rise };
    loop {
        ticks.tick().await;
        let result = upstream.check(tools.connector(), &member, &rule).await;
        if member.checked(result.is_ok(), thresholds) {
            tell(&upstream, &member, result);
            tools.report(&upstream);
        }
    }
}

fn tell(upstream: &Upstream, member: &Member, result: Result<(), String>) {
    let (upstream, server, address) = (&*upstream.name, &*member.name, member.address);
    match result {
        Ok(()) => tracing::info!(upstream, server, %address, "server is healthy again"),
        Err(reason) => tracing::warn!(upstream, server, %address, reason, "server is unhealthy"),
    }
}
