//! Every metric, its labels and what moves it.
//!
//! Called by the rim alone, by methods named after events. A label is always a name from the configuration or one of
//! a fixed set: never a key, an address, a raw path or anything a client can invent, so that the number of series is
//! bounded by the configuration. Handles of hot series are made once ([`LimitCounters`], [`CheckCounters`]) and kept
//! by their user.

mod refused;

use prometheus::core::Collector;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use std::collections::BTreeMap;
use std::time::Duration;

pub use refused::{Caller, Heavy, MAX_CALLERS, MAX_ROUTES, Refused};

/// The endpoint and route label of requests that no route took.
pub const UNMATCHED: &str = "unmatched";

/// Methods that have a label of their own; all others are `OTHER`.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    checks: IntCounterVec,
    remaining_fraction: HistogramVec,
    limiter_errors: IntCounter,
    store_errors: IntCounterVec,
    http_requests: IntCounterVec,
    http_duration: Histogram,
    upstream_duration: HistogramVec,
    decisions: IntCounterVec,
    decision_duration: HistogramVec,
    store_breaker_open: IntGauge,
    deny_cache_hits: IntCounter,
    store_entries: IntGauge,
    store_evictions: IntCounter,
    auth_failures: IntCounterVec,
    config_reloads: IntCounterVec,
    config_last_success: IntGauge,
    config_generation: IntGauge,
    keys_expiring: IntGauge,
    upstream_healthy: IntGaugeVec,
    requests_in_flight: IntGauge,
    /// No series: callers are as many as clients make them.
    pub refused: Refused,
}

/// The counters of one limit.
pub struct LimitCounters {
    pub allowed: IntCounter,
    pub rejected: IntCounter,
    pub shadow_rejected: IntCounter,
}

/// The counters of one tier on one route, and the tier's fraction left.
pub struct CheckCounters {
    pub allowed: IntCounter,
    pub rejected: IntCounter,
    pub remaining_fraction: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let registry = Registry::new();
        let metrics = Self {
            checks: counters(
                &registry,
                "rate_limit_checks_total",
                "Decisions made, by result.",
                &["result", "tier", "endpoint"],
            ),
            remaining_fraction: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new(
                        "rate_limit_remaining_fraction",
                        "What is left of a caller's tightest limit after a decision, 0 to 1.",
                    )
                    .buckets((0..=10).map(|tenth| f64::from(tenth) / 10.0).collect()),
                    &["tier"],
                ),
            ),
            limiter_errors: register(
                &registry,
                IntCounter::new("rate_limiter_errors_total", "Decisions that the store could not make."),
            ),
            store_errors: counters(&registry, "sluicegate_store_errors_total", "Store errors, by kind.", &["kind"]),
            http_requests: counters(
                &registry,
                "sluicegate_http_requests_total",
                "Requests answered, by route, method and status.",
                &["route", "method", "status"],
            ),
            http_duration: register(
                &registry,
                Histogram::with_opts(latency(
                    "sluicegate_http_request_duration_seconds",
                    "From a request's header to the end of its answer.",
                )),
            ),
            upstream_duration: register(
                &registry,
                HistogramVec::new(
                    latency(
                        "sluicegate_upstream_request_duration_seconds",
                        "From choosing a server to the upstream's response header.",
                    ),
                    &["upstream"],
                ),
            ),
            decisions: counters(
                &registry,
                "sluicegate_decisions_total",
                "What each limit said, by result.",
                &["limit", "layer", "result"],
            ),
            decision_duration: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("sluicegate_decision_duration_seconds", "The time one decision took.")
                        .buckets(vec![1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1]),
                    &["store"],
                ),
            ),
            store_breaker_open: gauge(&registry, "sluicegate_store_breaker_open", "1 while the store is given up on."),
            deny_cache_hits: register(
                &registry,
                IntCounter::new(
                    "sluicegate_store_deny_cache_hits_total",
                    "Refusals repeated without asking the store.",
                ),
            ),
            store_entries: gauge(&registry, "sluicegate_store_entries", "Counters held in memory."),
            store_evictions: register(
                &registry,
                IntCounter::new("sluicegate_store_evictions_total", "Counters dropped because memory was full."),
            ),
            auth_failures: counters(
                &registry,
                "sluicegate_auth_failures_total",
                "Requests refused for their key, by reason.",
                &["reason"],
            ),
            config_reloads: counters(&registry, "sluicegate_config_reloads_total", "Reloads, by result.", &["result"]),
            config_last_success: gauge(
                &registry,
                "sluicegate_config_last_reload_success_timestamp_seconds",
                "When the configuration in force was loaded.",
            ),
            config_generation: gauge(
                &registry,
                "sluicegate_config_generation",
                "How often the configuration was replaced, the first being 1.",
            ),
            keys_expiring: gauge(&registry, "sluicegate_keys_expiring", "Keys that expire within 14 days."),
            upstream_healthy: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("sluicegate_upstream_healthy", "1 while a server gets requests, 0 while it is left out."),
                    &["upstream", "server"],
                ),
            ),
            refused: Refused::default(),
            requests_in_flight: gauge(&registry, "sluicegate_requests_in_flight", "Requests not yet answered in full."),
            registry,
        };
        let build = register(
            &metrics.registry,
            IntGaugeVec::new(Opts::new("sluicegate_build_info", "Always 1."), &["version"]),
        );
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        for reason in ["missing", "invalid", "not_yet_valid", "expired", "disabled", "ambiguous", "forbidden"] {
            metrics.auth_failures.with_label_values(&[reason]);
        }
        for result in ["success", "failure"] {
            metrics.config_reloads.with_label_values(&[result]);
        }
        metrics
    }

    /// The page in the Prometheus text format.
    pub fn page(&self) -> Vec<u8> {
        let mut page = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut page).expect("writing text into memory cannot fail");
        page
    }

    pub fn limit_counters(&self, limit: &str, layer: &str) -> LimitCounters {
        let counter = |result| self.decisions.with_label_values(&[limit, layer, result]);
        LimitCounters {
            allowed: counter("allowed"),
            rejected: counter("rejected"),
            shadow_rejected: counter("shadow_rejected"),
        }
    }

    pub fn check_counters(&self, tier: &str, endpoint: &str) -> CheckCounters {
        CheckCounters {
            allowed: self.checks.with_label_values(&["allowed", tier, endpoint]),
            rejected: self.checks.with_label_values(&["rejected", tier, endpoint]),
            remaining_fraction: self.remaining_fraction.with_label_values(&[tier]),
        }
    }

    pub fn decision_duration(&self, store: &str) -> Histogram {
        self.decision_duration.with_label_values(&[store])
    }

    pub fn request_started(&self) {
        self.requests_in_flight.inc();
    }

    pub fn request_ended(&self) {
        self.requests_in_flight.dec();
    }

    /// Requests that are not yet answered in full.
    pub fn in_flight(&self) -> i64 {
        self.requests_in_flight.get()
    }

    /// By upstream: each server as configured, and whether it gets requests.
    pub fn upstreams(&self) -> BTreeMap<String, Vec<(String, bool)>> {
        let mut upstreams = BTreeMap::<String, Vec<(String, bool)>>::new();
        for series in self.upstream_healthy.collect().iter().flat_map(|family| family.get_metric()) {
            let label = |name: &str| {
                let found = series.get_label().iter().find(|label| label.name() == name);
                found.map(|label| label.value().to_owned()).unwrap_or_default()
            };
            let healthy = series.get_gauge().get_value() > 0.0;
            upstreams.entry(label("upstream")).or_default().push((label("server"), healthy));
        }
        upstreams
    }

    /// Counters dropped because memory was full.
    pub fn evictions(&self) -> u64 {
        self.store_evictions.get()
    }

    /// Calls that the store did not answer.
    pub fn store_failures(&self) -> u64 {
        self.limiter_errors.get()
    }

    pub fn request_answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        let method = METHODS.iter().find(|known| **known == method).unwrap_or(&"OTHER");
        let mut digits = [0; 3];
        self.http_requests.with_label_values(&[route, method, status_text(status, &mut digits)]).inc();
        self.http_duration.observe(took.as_secs_f64());
    }

    pub fn upstream_answered(&self, upstream: &str, took: Duration) {
        self.upstream_duration.with_label_values(&[upstream]).observe(took.as_secs_f64());
    }

    /// Whether a server, named as configured, gets requests.
    pub fn upstream_server(&self, upstream: &str, server: &str, healthy: bool) {
        self.upstream_healthy.with_label_values(&[upstream, server]).set(i64::from(healthy));
    }

    /// A server is no longer configured.
    pub fn upstream_server_gone(&self, upstream: &str, server: &str) {
        // It is an error only for a series that was never there.
        let _ = self.upstream_healthy.remove_label_values(&[upstream, server]);
    }

    pub fn auth_failed(&self, reason: &str) {
        self.auth_failures.with_label_values(&[reason]).inc();
    }

    pub fn store_failed(&self, kind: &str) {
        self.limiter_errors.inc();
        self.store_errors.with_label_values(&[kind]).inc();
    }

    /// A refusal was repeated without asking the shared store.
    pub fn refusal_remembered(&self) {
        self.deny_cache_hits.inc();
    }

    /// Whether any breaker of the shared store is open.
    pub fn store_breaker(&self, open: bool) {
        self.store_breaker_open.set(i64::from(open));
    }

    /// What the memory store holds, and how many counters it has dropped since it was made.
    pub fn store_holds(&self, entries: u64, evictions: u64) {
        self.store_entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
        self.store_evictions.inc_by(evictions.saturating_sub(self.store_evictions.get()));
    }

    pub fn config_loaded(&self, generation: u64, at_seconds: i64) {
        self.config_generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.config_last_success.set(at_seconds);
    }

    /// Keys in force that expire soon, as of now.
    pub fn keys_expiring(&self, count: usize) {
        self.keys_expiring.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn reload_finished(&self, succeeded: bool) {
        self.config_reloads.with_label_values(&[if succeeded { "success" } else { "failure" }]).inc();
    }
}

fn status_text(status: u16, digits: &mut [u8; 3]) -> &str {
    for (digit, divisor) in digits.iter_mut().zip([100, 10, 1]) {
        *digit = b'0' + u8::try_from(status / divisor % 10).expect("a decimal digit");
    }
    std::str::from_utf8(digits).expect("decimal digits are ASCII")
}

fn latency(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help)
        .buckets(vec![0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    register(registry, IntGauge::new(name, help))
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("metric names and labels are constants of this file");
    registry.register(Box::new(collector.clone())).expect("each metric is registered once");
    collector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_a_client_invents_makes_no_series_of_its_own() {
        let metrics = Metrics::new();
        metrics.request_answered("default", "BREW", 418, Duration::from_millis(3));
        let page = String::from_utf8(metrics.page()).unwrap();
        assert!(
            page.contains(r#"sluicegate_http_requests_total{method="OTHER",route="default",status="418"} 1"#),
            "{page}"
        );
        assert!(!page.contains("BREW"));
    }
}
