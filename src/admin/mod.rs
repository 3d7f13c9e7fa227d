//! The admin port: metrics and probes, on a listener of its own that no limit applies to.
//!
//! Probes and `/metrics` need no token; whatever else is asked for does, when one is set. `/livez` depends on nothing
//! but the process; `/readyz` says 503 from the moment a drain begins.

use crate::metrics::Metrics;
use crate::proxy::snapshot::Live;
use crate::time::Clock;
use async_trait::async_trait;
use http::{Method, Response, StatusCode, header};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

/// The content type of the Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// Answers on the admin port.
pub struct Admin {
    metrics: Arc<Metrics>,
    live: Arc<Live>,
    shutting_down: watch::Receiver<bool>,
    store: Box<dyn Fn() -> Health + Send + Sync>,
}

/// How the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Good,
    /// It fails, and requests are decided without it.
    Degraded,
    /// It fails, and requests are refused.
    Bad,
}

impl Admin {
    pub fn new(
        metrics: Arc<Metrics>,
        live: Arc<Live>,
        shutting_down: watch::Receiver<bool>,
        store: Box<dyn Fn() -> Health + Send + Sync>,
    ) -> Self {
        Self { metrics, live, shutting_down, store }
    }

    fn answer(&self, session: &ServerSession) -> Response<Vec<u8>> {
        let request = session.req_header();
        let reading = matches!(request.method, Method::GET | Method::HEAD);
        match request.uri.path() {
            "/livez" if reading => text(StatusCode::OK, "ok\n"),
            "/readyz" if reading => self.ready(request.uri.query().is_some_and(|query| query.starts_with("verbose"))),
            "/metrics" if reading => {
                self.metrics.keys_expiring(self.live.load().policy.keys.expiring(Clock::wall()));
                page(StatusCode::OK, METRICS_TYPE, self.metrics.page())
            }
            "/livez" | "/readyz" | "/metrics" => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
            _ if !self.is_authorised(session) => {
                let mut response = text(StatusCode::UNAUTHORIZED, "the admin token is required\n");
                let challenge = header::HeaderValue::from_static("Bearer realm=\"sluicegate-admin\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                response
            }
            _ => text(StatusCode::NOT_FOUND, "there is /metrics, /livez and /readyz\n"),
        }
    }

    fn ready(&self, verbose: bool) -> Response<Vec<u8>> {
        let (status, word) = match (*self.shutting_down.borrow(), (self.store)()) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            (false, Health::Good) => (StatusCode::OK, "ready"),
            (false, Health::Degraded) => (StatusCode::OK, "degraded"),
            (false, Health::Bad) => (StatusCode::SERVICE_UNAVAILABLE, "degraded"),
        };
        if !verbose {
            return text(status, &format!("{word}\n"));
        }
        text(
            status,
            &format!("{word}\nstore: {:?}\nrequests in flight: {}\n", (self.store)(), self.metrics.in_flight()),
        )
    }

    fn is_authorised(&self, session: &ServerSession) -> bool {
        let snapshot = self.live.load();
        let Some(token) = &snapshot.admin_token else { return true };
        let given = session.get_header_bytes(header::AUTHORIZATION);
        given.strip_prefix(b"Bearer ").is_some_and(|given| token.reveal().as_bytes().ct_eq(given).into())
    }
}

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let mut response = self.answer(session);
        if session.req_header().method == Method::HEAD {
            response.body_mut().clear();
        }
        response
    }
}

fn text(status: StatusCode, body: &str) -> Response<Vec<u8>> {
    page(status, "text/plain; charset=utf-8", body.as_bytes().to_vec())
}

fn page(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Vec<u8>> {
    let length = body.len();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}
