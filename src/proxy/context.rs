//! What is known of one request from its header to its log line.

use super::snapshot::Snapshot;
use super::upstream::Upstream;
use crate::config::model::Name;
use crate::limiter::Decision;
use crate::limiter::rejection::Rejection;
use crate::metrics::Metrics;
use crate::policy::ANONYMOUS;
use crate::time::{Stopwatch, Timestamp};
use crate::upstream::Attempt;
use http::HeaderValue;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The state of one request. Its snapshot is taken once, so a reload never changes the rules under it.
pub struct Context {
    pub snapshot: Arc<Snapshot>,
    pub now: Timestamp,
    pub started: Stopwatch,
    pub request_id: HeaderValue,
    /// The path as forwarded; empty until it was read.
    pub path: String,
    /// The query as forwarded, without the key.
    pub query: Option<Vec<u8>>,
    /// The authority that the client asked for, as it goes upstream.
    pub host: Option<HeaderValue>,
    pub peer: Option<IpAddr>,
    /// Whether the client came by TLS.
    pub is_tls: bool,
    pub client: Option<IpAddr>,
    pub trusted_peer: bool,
    pub route: Option<usize>,
    pub consumer: Option<usize>,
    pub key: Option<usize>,
    pub tier: usize,
    pub decision: Option<Decision>,
    pub rejection: Option<Rejection>,
    /// Whether it was held by a leaky bucket.
    pub delayed: bool,
    /// The server chosen last.
    pub server: Option<Name>,
    /// The request on its way to that server, which counts it until it ends.
    pub attempt: Option<Attempt>,
    /// Servers that failed it.
    pub tried: SmallVec<[SocketAddr; 2]>,
    pub upstream_started: Option<Stopwatch>,
    pub upstream_ms: Option<f64>,
    /// Attempts to reach an upstream.
    pub tries: u32,
    /// Request body bytes seen so far.
    pub body_bytes: u64,
    _in_flight: InFlight,
}

impl Context {
    pub fn new(snapshot: Arc<Snapshot>, now: Timestamp, started: Stopwatch, metrics: Arc<Metrics>) -> Self {
        Self {
            snapshot,
            now,
            started,
            request_id: HeaderValue::from_static(""),
            path: String::new(),
            query: None,
            host: None,
            peer: None,
            is_tls: false,
            client: None,
            trusted_peer: false,
            route: None,
            consumer: None,
            key: None,
            tier: ANONYMOUS,
            decision: None,
            rejection: None,
            delayed: false,
            server: None,
            attempt: None,
            tried: SmallVec::new(),
            upstream_started: None,
            upstream_ms: None,
            tries: 0,
            body_bytes: 0,
            _in_flight: InFlight::new(metrics),
        }
    }

    /// The upstream of the request's route.
    pub fn upstream(&self) -> Option<&Arc<Upstream>> {
        let route = &self.snapshot.policy.routes[self.route?];
        self.snapshot.upstreams.get(route.upstream)
    }

    /// The request id as text.
    pub fn request_id(&self) -> &str {
        self.request_id.to_str().unwrap_or_default()
    }
}

/// Counts a request for as long as it lives, however it ends.
struct InFlight(Arc<Metrics>);

impl InFlight {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.request_started();
        Self(metrics)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}
