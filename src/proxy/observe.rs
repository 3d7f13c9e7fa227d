//! What is told of each request: metrics and the access line.

use super::Gate;
use super::access_log::{Line, time_text};
use super::context::Context;
use crate::algorithm::UNIT;
use crate::config::model::Mode;
use crate::limiter::Decision;
use crate::limiter::assess::{Address, Assessment};
use crate::limiter::rejection::Rejection;
use crate::metrics::{Caller, UNMATCHED};
use crate::request::{credential, query};
use crate::time::Clock;
use http::{HeaderMap, HeaderValue, header};
use pingora::proxy::Session;
use std::borrow::Cow;

impl Context {
    /// Keeps what later phases need of an assessment.
    pub fn learn(&mut self, assessment: &Assessment<'_>, address: &Result<Address<'_>, &'static str>) {
        self.client = Some(assessment.facts.address);
        self.trusted_peer = assessment.trusted_peer;
        self.route = assessment.facts.route;
        self.consumer = assessment.facts.consumer;
        self.key = assessment.key;
        self.tier = assessment.facts.tier;
        if let Ok(address) = address {
            self.path = address.path.forward().to_owned();
            self.host = host_value(assessment.facts.headers, address.target.authority);
            self.query = address.target.query.map(|query| {
                let policy = &self.snapshot.policy;
                let sources = if policy.forward_credentials { &[][..] } else { &policy.sources };
                credential::strip_query(sources, query).unwrap_or_else(|| query.to_owned())
            });
        }
    }
}

/// The authority as a header value, which mostly is the `Host` that the client sent; absent when it is empty.
fn host_value(headers: &HeaderMap, authority: &str) -> Option<HeaderValue> {
    let sent = headers.get(header::HOST).filter(|host| host.as_bytes() == authority.as_bytes()).cloned();
    sent.or_else(|| HeaderValue::from_str(authority).ok()).filter(|host| !host.is_empty())
}

impl Gate {
    /// Counts what each limit said.
    pub(super) fn observe_decision(&self, context: &Context, decision: &Decision) {
        let snapshot = &context.snapshot;
        let mut lowest = None::<f64>;
        for (index, status) in decision.statuses(&snapshot.policy) {
            let counters = snapshot.limit_counters(index, &self.metrics);
            let fits = status.wait == crate::algorithm::Wait::Now;
            match (status.limit.mode, fits) {
                (_, true) => counters.allowed.inc(),
                (Mode::Enforce, false) => counters.rejected.inc(),
                (Mode::Shadow, false) => counters.shadow_rejected.inc(),
            }
            if status.limit.mode == Mode::Enforce {
                let capacity = status.limit.meter.quota.capacity.max(1);
                let fraction = (status.remaining as f64 / capacity as f64).clamp(0.0, 1.0);
                lowest = Some(lowest.map_or(fraction, |lowest| lowest.min(fraction)));
            }
        }
        let checks = snapshot.check_counters(context.tier, context.route, &self.metrics);
        if decision.admitted { &checks.allowed } else { &checks.rejected }.inc();
        if !decision.admitted {
            self.observe_refusal(context, decision);
        }
        if let Some(fraction) = lowest {
            checks.remaining_fraction.observe(fraction);
        }
    }

    /// Counts whom a limit refused, and where.
    fn observe_refusal(&self, context: &Context, decision: &Decision) {
        let policy = &context.snapshot.policy;
        let caller = match (context.consumer, context.client) {
            (Some(consumer), _) => Caller::Consumer(policy.consumers[consumer].name.clone()),
            (None, Some(client)) => Caller::Group(policy.address_rules.group(client)),
            (None, None) => return,
        };
        let route = context.route.map_or_else(|| UNMATCHED.into(), |route| policy.routes[route].name.clone());
        let verdict = decision.verdict(policy);
        if let Some(status) = verdict.refusing() {
            self.metrics.refused.note(caller, route, &status.limit.name, decision.at.0);
        }
    }

    /// Measures the upstream once, at its response header.
    pub(super) fn observe_upstream(&self, context: &mut Context) {
        let Some(took) = context.upstream_started.take().map(|started| started.elapsed()) else { return };
        context.upstream_ms = Some(took.as_secs_f64() * 1000.0);
        if let Some(upstream) = context.upstream() {
            self.metrics.upstream_answered(&upstream.name, took);
        }
    }

    /// Counts the request and writes its line.
    pub(super) fn observe_request(&self, session: &Session, context: &Context) {
        let header = session.req_header();
        let took = context.started.elapsed();
        // 499, as nginx has it: the client was gone before any answer.
        let status = session.response_written().map_or(499, |response| response.status.as_u16());
        self.metrics.request_answered(context.snapshot.route_name(context.route), header.method.as_str(), status, took);
        if !self.access_log.is_on() {
            return;
        }
        let policy = &context.snapshot.policy;
        let verdict = context.decision.as_ref().map(|decision| decision.verdict(policy));
        let shown = verdict.as_ref().and_then(|verdict| verdict.refusing().or_else(|| verdict.shown()));
        let path = logged_path(context);
        let decided_at = context.decision.as_ref().map(|decision| time_text(decision.at));
        self.access_log.write(&Line {
            time: &time_text(Clock::wall()),
            request_id: context.request_id(),
            client_ip: context.client.or(context.peer),
            consumer: context.consumer.map(|consumer| &*policy.consumers[consumer].name),
            key_id: context.key.map(|key| policy.keys.record(key).id()),
            tier: context.client.map(|_| &*policy.tiers[context.tier].name),
            method: header.method.as_str(),
            route: context.route.map(|route| &*policy.routes[route].name),
            path: &path,
            status,
            bytes: session.body_bytes_sent(),
            duration_ms: rounded(took.as_secs_f64() * 1000.0),
            upstream: context.server.as_deref(),
            upstream_ms: context.upstream_ms.map(rounded),
            decision: decision_word(context),
            limit: shown.map(|status| &*status.limit.name),
            cost: shown.map(|status| status.cost as f64 / UNIT as f64),
            remaining: shown.map(|status| status.remaining_requests()),
            decided_at: decided_at.as_deref(),
            error: context.rejection.map(|rejection| rejection.parts().1),
        });
    }
}

fn decision_word(context: &Context) -> &'static str {
    let decision = context.decision.as_ref();
    let rejected = |rejection: Rejection| rejection.status() < 500 || rejection == Rejection::LimiterUnavailable;
    if decision.is_some_and(|decision| !decision.admitted) || context.rejection.is_some_and(rejected) {
        "rejected"
    } else if decision.is_some_and(|decision| decision.degraded) {
        "degraded"
    } else if context.delayed {
        "delayed"
    } else {
        "allowed"
    }
}

/// The path as forwarded, the values of its query masked; what could not be read is not repeated.
fn logged_path(context: &Context) -> Cow<'_, str> {
    match &context.query {
        Some(query) => Cow::Owned(format!("{}?{}", context.path, query::masked(query))),
        None => Cow::Borrowed(&context.path),
    }
}

/// Microseconds are exact enough for a log.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1000.0).round() / 1000.0
}
