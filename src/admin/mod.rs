//! The admin port: metrics, probes, the inspection API and the dashboard, on a listener of its own that no limit applies to.
//!
//! Probes, `/metrics` and the files of the dashboard need no token; whatever else is asked for does, when one is set. The
//! files hold nothing that is secret: they ask for the token themselves. `/livez` depends on nothing but the process;
//! `/readyz` says 503 from the moment a drain begins. What may be changed here (counters) is changed by DELETE alone, which a
//! page of another origin cannot send: see [`guard`].

mod answer;
mod dashboard;
mod guard;
mod limits;
mod status;
mod top;

use crate::metrics::Metrics;
use crate::proxy::snapshot::{Live, Snapshot};
use crate::reload::LastReport;
use crate::store::Store;
use crate::time::{Clock, Stopwatch};
use answer::{Failure, Reply, json, page, text};
use async_trait::async_trait;
use http::{Method, Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use std::sync::Arc;
use tokio::sync::watch;

/// The content type of the Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// What the admin port looks at.
pub struct Parts {
    pub metrics: Arc<Metrics>,
    pub live: Arc<Live>,
    pub shutting_down: watch::Receiver<bool>,
    /// How the store is.
    pub health: Box<dyn Fn() -> Health + Send + Sync>,
    /// The one that requests are decided in.
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub last_reload: LastReport,
}

/// Answers on the admin port.
pub struct Admin {
    parts: Parts,
    started: Stopwatch,
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
    pub fn new(parts: Parts) -> Self {
        Self { parts, started: Stopwatch::start() }
    }

    async fn answer(&self, session: &ServerSession) -> Reply {
        let request = session.req_header();
        let path = request.uri.path();
        let reading = matches!(request.method, Method::GET | Method::HEAD);
        if matches!(path, "/livez" | "/readyz" | "/metrics") {
            return if reading { self.probe(path, request.uri.query()) } else { not_allowed() };
        }
        if let Some(file) = dashboard::file(path) {
            return if reading { file } else { not_allowed() };
        }
        let snapshot = self.parts.live.load_full();
        let answered = match guard::admit(session, &snapshot) {
            Ok(()) => self.inspect(session, &snapshot).await,
            Err(failure) => Err(failure),
        };
        answered.unwrap_or_else(|failure| failure.reply(&request.headers))
    }

    /// The API under `/api/v1`.
    async fn inspect(&self, session: &ServerSession, snapshot: &Snapshot) -> Result<Reply, Failure> {
        let request = session.req_header();
        let query = request.uri.query().unwrap_or_default();
        let reading = matches!(request.method, Method::GET | Method::HEAD);
        match request.uri.path() {
            "/api/v1/status" if reading => Ok(json(&self.status(snapshot))),
            "/api/v1/config" if reading => Ok(json(&*snapshot.written)),
            "/api/v1/top" if reading => top::answer(&self.parts.metrics.refused, query),
            "/api/v1/limits" if reading => self.show_limits(snapshot, query).await,
            "/api/v1/limits" if request.method == Method::DELETE => {
                self.reset_limits(snapshot, query, session.client_addr()).await
            }
            "/api/v1/status" | "/api/v1/config" | "/api/v1/top" => Err(Failure::not_allowed("GET, HEAD")),
            "/api/v1/limits" => Err(Failure::not_allowed("GET, HEAD, DELETE")),
            _ => Err(Failure::not_found(
                "There is /, /metrics, /livez, /readyz and, under /api/v1: status, config, limits, top.",
            )),
        }
    }

    fn probe(&self, path: &str, query: Option<&str>) -> Reply {
        match path {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready(query.is_some_and(|query| query.starts_with("verbose"))),
            _ => {
                let expiring = self.parts.live.load().policy.keys.expiring(Clock::wall());
                self.parts.metrics.keys_expiring(expiring);
                page(StatusCode::OK, METRICS_TYPE, self.parts.metrics.page())
            }
        }
    }

    fn ready(&self, verbose: bool) -> Reply {
        let health = (self.parts.health)();
        let (status, word) = match (*self.parts.shutting_down.borrow(), health) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            (false, Health::Good) => (StatusCode::OK, "ready"),
            (false, Health::Degraded) => (StatusCode::OK, "degraded"),
            (false, Health::Bad) => (StatusCode::SERVICE_UNAVAILABLE, "degraded"),
        };
        if !verbose {
            return text(status, &format!("{word}\n"));
        }
        let in_flight = self.parts.metrics.in_flight();
        text(status, &format!("{word}\nstore: {health:?}\nrequests in flight: {in_flight}\n"))
    }
}

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let mut response = self.answer(session).await;
        if session.req_header().method == Method::HEAD {
            response.body_mut().clear();
        }
        response
    }
}

fn not_allowed() -> Reply {
    text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n")
}
