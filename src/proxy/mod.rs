//! The rim towards HTTP: one short method for each of Pingora's phases, each delegating.
//!
//! The order of a request is the order of the methods of [`ProxyHttp`] here: early filter, request filter (assess,
//! decide, answer or hold), upstream peer, upstream request, response, log. Pingora's types stay in this folder and
//! in `server`; what decides is in `limiter` and below. Choosing an upstream again for a retry happens after the
//! request filter, so a retry is never charged.

mod accept;
pub mod access_log;
pub mod connection;
mod context;
mod cors;
mod early;
mod forward;
mod grpc;
pub mod headers;
mod hold;
mod hop_by_hop;
mod members;
mod observe;
mod page;
pub mod parking;
mod refusal;
pub mod request_id;
mod respond;
mod size;
pub mod snapshot;
mod template;
mod tunnel;
pub mod upstream;

use crate::config::model::Server;
use crate::limiter::assess::{self, Inputs};
use crate::limiter::rejection::Rejection;
use crate::limiter::{Receipt, decide};
use crate::metrics::Metrics;
use crate::request::head::Fault;
use crate::store::Store;
use crate::time::{Clock, Stopwatch};
use access_log::AccessLog;
use async_trait::async_trait;
use context::Context;
use hold::Held;
use http::Version;
use parking::Parking;
use pingora::apps::HttpServerOptions;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result};
use prometheus::Histogram;
use size::{exceeds, over_size};
use snapshot::{Live, Snapshot};
use std::net::IpAddr;
use std::sync::Arc;

/// The gateway as Pingora sees it.
pub struct Gate {
    pub live: Arc<Live>,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    /// Of the store.
    pub decision_duration: Histogram,
    pub access_log: Arc<AccessLog>,
    pub parking: Arc<Parking>,
}

/// How connections are served: HTTP/1.1 and cleartext HTTP/2.
pub fn serve_options(server: &Server) -> HttpServerOptions {
    let mut options = HttpServerOptions::default();
    options.h2c = true;
    options.h2_idle_timeout = Some(server.idle_timeout.to_duration());
    options
}

/// What became of a request in the request filter.
enum Step {
    Forward,
    Answer(Rejection),
    /// The client has gone: there is nobody to answer.
    Gone,
}

impl Gate {
    /// Assesses and decides. What is left to do with an admitted request that has a receipt is to hold it.
    async fn judge(
        &self,
        header: &RequestHeader,
        peer: IpAddr,
        snapshot: &Snapshot,
        context: &mut Context,
    ) -> Result<Option<Receipt>, Rejection> {
        let policy = &snapshot.policy;
        let inputs = Inputs {
            peer,
            method: header.method.as_str(),
            version: header.version,
            target: header.raw_path(),
            authority: authority_of(header),
            headers: &header.headers,
        };
        let fault = connection::fault();
        let address = match fault {
            None => assess::address(policy, &inputs),
            Some(Fault::Invalid(reason)) => Err(reason),
            Some(Fault::TooLarge) => Err(""),
        };
        let mut assessment = assess::assess(policy, &inputs, &address, context.now);
        context.learn(&assessment, &address);
        if let Some(reason) = assessment.auth_failure {
            self.metrics.auth_failed(reason);
        }
        if fault == Some(Fault::TooLarge) {
            assessment.rename(Rejection::HeadersTooLarge);
        }
        if let Some(rejection) = over_size(header, &snapshot.server) {
            assessment.reject(rejection);
        }
        let took = Stopwatch::start();
        let decided = decide(policy, &assessment.facts, assessment.draw, &*self.store, context.now).await;
        self.decision_duration.observe(took.elapsed().as_secs_f64());
        let (decision, receipt) = decided.map_err(|error| {
            // The store's guard has counted and logged it; a line for each request would only fill the disk.
            tracing::debug!(%error, "a decision failed");
            Rejection::LimiterUnavailable
        })?;
        self.observe_decision(context, &decision);
        let refused = (!decision.admitted).then(|| decision.rejection(policy));
        context.decision = Some(decision);
        match refused.or(assessment.rejection) {
            Some(rejection) => Err(rejection),
            None => Ok(receipt),
        }
    }

    /// Holds an admitted request until its turn in a leaky bucket.
    async fn hold(&self, session: &mut Session, context: &mut Context, receipt: &Receipt) -> Step {
        context.delayed = true;
        let snapshot = context.snapshot.clone();
        let policy = &snapshot.policy;
        let (step, places) = match hold::hold(session, &self.parking, &snapshot, receipt, context.now, self.clock).await
        {
            Held::Turn => return Step::Forward,
            Held::Left { place_free } => (Step::Gone, place_free),
            Held::Full => {
                if let Some(decision) = &mut context.decision {
                    decision.refuse_held(policy);
                }
                (Step::Answer(Rejection::RateLimited), true)
            }
        };
        let refund = receipt.refund(policy, places);
        if let Err(error) = self.store.settle(self.clock.now(), &refund).resolve().await {
            tracing::error!(%error, "what a request held was not given back");
        }
        step
    }

    async fn admit(&self, session: &mut Session, context: &mut Context) -> Step {
        let snapshot = context.snapshot.clone();
        let peer = peer_address(session);
        context.peer = Some(peer.to_canonical());
        context.is_tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
        match self.judge(session.req_header(), peer, &snapshot, context).await {
            Err(rejection) => Step::Answer(rejection),
            Ok(None) => Step::Forward,
            Ok(Some(receipt)) => self.hold(session, context, &receipt).await,
        }
    }
}

#[async_trait]
impl ProxyHttp for Gate {
    /// Boxed, because Pingora moves it from future to future.
    type CTX = Box<Context>;

    /// None: Pingora's own, which compresses, is made anew for each request even when it is off.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    fn new_ctx(&self) -> Box<Context> {
        let (now, started) = self.clock.start_of_request();
        Box::new(Context::new(self.live.load_full(), now, started, self.metrics.clone()))
    }

    async fn early_request_filter(&self, session: &mut Session, context: &mut Box<Context>) -> Result<()> {
        let server = &context.snapshot.server;
        let body_timeout = server.body_timeout.to_duration();
        session.set_read_timeout(Some(body_timeout));
        session.set_write_timeout(Some(body_timeout));
        session.set_total_drain_timeout(Some(body_timeout));
        if session.get_keepalive().is_some() {
            // Whole seconds are all that Pingora knows; 0 would mean for ever.
            session.set_keepalive(Some(server.idle_timeout.seconds_up().max(1).unsigned_abs()));
        }
        context.request_id = request_id::request_id(&session.req_header().headers);
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, context: &mut Box<Context>) -> Result<bool> {
        match self.admit(session, context).await {
            Step::Forward => Ok(false),
            Step::Gone => {
                session.set_keepalive(None);
                Err(Error::explain(ErrorType::ConnectionClosed, "the client left while its request was held")
                    .into_down())
            }
            Step::Answer(rejection) => {
                context.rejection = Some(rejection);
                early::answer(session, context, rejection).await?;
                Ok(true)
            }
        }
    }

    async fn upstream_peer(&self, session: &mut Session, context: &mut Box<Context>) -> Result<Box<HttpPeer>> {
        let mut peer = self.choose_server(session, context)?;
        hop_by_hop::clean_request(session.req_header_mut(), forward::is_ours)?;
        if session.is_upgrade_req() {
            tunnel::prepare(&mut peer);
        }
        context.tries += 1;
        // A retry sends the body from its beginning.
        context.body_bytes = 0;
        context.upstream_started = Some(Stopwatch::start());
        Ok(Box::new(peer))
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        context: &mut Box<Context>,
    ) -> Result<()> {
        forward::rewrite(request, context)
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<bytes::Bytes>,
        _end: bool,
        context: &mut Box<Context>,
    ) -> Result<()> {
        context.body_bytes += body.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if exceeds(context.snapshot.server.max_body_bytes, Some(context.body_bytes)) {
            context.rejection = Some(Rejection::PayloadTooLarge);
            return Err(Error::explain(ErrorType::HTTPStatus(413), "the request body is over the cap").into_down());
        }
        Ok(())
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        context: &mut Box<Context>,
        reused: bool,
    ) -> Box<Error> {
        self.server_failed(context, &error, reused);
        let upstreams = *error.esource() == ErrorSource::Upstream;
        let retry = context.upstream().is_some_and(|upstream| upstream.may_retry(context.tries, session, &error, true));
        error.set_retry(upstreams && retry);
        error
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        context: &mut Box<Context>,
        mut error: Box<Error>,
    ) -> Box<Error> {
        self.server_failed(context, &error, false);
        let retry =
            context.upstream().is_some_and(|upstream| upstream.may_retry(context.tries, session, &error, false));
        error.set_retry(retry);
        error
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Box<Context>,
    ) -> Result<()> {
        let switches = response.status == http::StatusCode::SWITCHING_PROTOCOLS;
        if switches && !session.is_upgrade_req() {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "nobody asked to switch protocols").into_up());
        }
        if switches {
            connection::becomes_tunnel();
        }
        hop_by_hop::clean_response(response);
        if response.status.is_informational() && !switches {
            return Ok(());
        }
        self.observe_upstream(context);
        self.server_answered(context);
        if session.req_header().version == Version::HTTP_10 && hop_by_hop::end_with_connection(response) {
            session.set_keepalive(None);
        }
        respond::complete(response, context)
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, context: &mut Box<Context>) -> FailToProxy {
        let done = FailToProxy { error_code: 0, can_reuse_downstream: false };
        let began = session.response_written().is_some_and(|response| !response.status.is_informational());
        let Some(rejection) = rejection_for(error, context).filter(|_| !began) else { return done };
        // That all servers are down was told once, when it came to that.
        if *error.esource() == ErrorSource::Upstream && rejection != Rejection::UpstreamUnavailable {
            let upstream = context.upstream().map_or("", |upstream| &upstream.name);
            let server = context.server.as_deref().unwrap_or_default();
            tracing::warn!(
                kind = error.etype().as_str(),
                upstream,
                server,
                request_id = context.request_id(),
                "upstream failed"
            );
        }
        context.rejection = Some(rejection);
        // The client may be gone by now; then there is nobody to tell.
        let _ = early::answer(session, context, rejection).await;
        FailToProxy { error_code: rejection.status(), ..done }
    }

    async fn logging(&self, session: &mut Session, _error: Option<&Error>, context: &mut Box<Context>) {
        self.observe_request(session, context);
    }

    /// Pingora's own records quote what clients sent; ours say what is needed.
    fn suppress_error_log(&self, _session: &Session, _context: &Box<Context>, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _context: &Box<Context>,
        _error: &Error,
        _reason: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}

/// What a failure is called; absent when the client is gone.
fn rejection_for(error: &Error, context: &Context) -> Option<Rejection> {
    if let ErrorType::HTTPStatus(413) = error.etype() {
        return context.rejection.or(Some(Rejection::PayloadTooLarge));
    }
    match error.esource() {
        ErrorSource::Upstream => Some(match error.etype() {
            ErrorType::ConnectTimedout | ErrorType::ReadTimedout | ErrorType::WriteTimedout => {
                Rejection::UpstreamTimeout
            }
            ErrorType::Custom(upstream::NO_SERVER) => Rejection::UpstreamUnavailable,
            _ => Rejection::BadGateway,
        }),
        ErrorSource::Downstream => match error.etype() {
            ErrorType::ReadError if connection::fault().is_some() => {
                Some(Rejection::BadRequest("The request is not valid HTTP."))
            }
            ErrorType::WriteError | ErrorType::ReadError | ErrorType::ConnectionClosed => None,
            ErrorType::ReadTimedout | ErrorType::WriteTimedout => None,
            _ => Some(Rejection::BadRequest("The request is not valid HTTP.")),
        },
        ErrorSource::Internal | ErrorSource::Unset => Some(Rejection::Internal),
    }
}

fn peer_address(session: &Session) -> IpAddr {
    let address = session.client_addr().and_then(|address| address.as_inet());
    address.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |address| address.ip())
}

/// HTTP/2's `:authority`; HTTP/1.1 has it in the target, if at all.
fn authority_of(header: &RequestHeader) -> Option<&[u8]> {
    let authority = header.uri.authority().filter(|_| header.version == Version::HTTP_2);
    authority.map(|authority| authority.as_str().as_bytes())
}

#[cfg(test)]
mod fixtures;
