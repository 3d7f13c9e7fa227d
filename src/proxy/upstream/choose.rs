//! The server of a request, and what became of the request there.

use super::is_timeout;
use crate::config::model::{Balance, HashKey, UpstreamProtocol};
use crate::policy::scope::header_value;
use crate::proxy::Gate;
use crate::proxy::context::Context;
use crate::upstream::key_of;
use http::HeaderMap;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result};
use std::net::IpAddr;
use std::sync::Arc;

/// The error of an upstream all of whose servers are down.
pub const NO_SERVER: &str = "NoHealthyServer";

impl Gate {
    /// The server for the next attempt; one that failed this request before is left out while there is another.
    pub(in crate::proxy) fn choose_server(&self, session: &Session, context: &mut Context) -> Result<HttpPeer> {
        if let Some(failed) = context.attempt.take() {
            context.tried.push(failed.member().address);
        }
        let Some(upstream) = context.upstream().map(Arc::clone) else { return Err(no_server()) };
        let key = key(upstream.pool.balance(), &session.req_header().headers, context);
        let attempt = upstream.pool.choose(key, &context.tried, self.clock.now()).ok_or_else(no_server)?;
        let timeout = context.route.and_then(|route| context.snapshot.policy.routes[route].timeout);
        let peer = upstream.peer(attempt.member(), timeout);
        context.server = Some(attempt.member().name.clone());
        context.attempt = Some(attempt);
        Ok(peer)
    }

    /// Notes an attempt that failed. A kept HTTP/1.1 connection that turns out to be closed is the way of kept connections
    /// and says nothing of the server; over HTTP/2 nearly all connections are kept ones, so there it counts.
    pub(in crate::proxy) fn server_failed(&self, context: &Context, error: &Error, reused: bool) {
        let (Some(upstream), Some(attempt)) = (context.upstream(), &context.attempt) else { return };
        let stale = reused && upstream.protocol == UpstreamProtocol::Http1 && !is_timeout(error);
        if *error.esource() != ErrorSource::Upstream || stale {
            return;
        }
        let member = attempt.member();
        if upstream.pool.failed(member, self.clock.now()) {
            let (server, address, kind) = (&*member.name, member.address, error.etype().as_str());
            tracing::warn!(upstream = upstream.name, server, %address, kind, "server fails: passed over for a while");
        }
    }

    /// Notes that the server gave an answer, whatever it says.
    pub(in crate::proxy) fn server_answered(&self, context: &Context) {
        let (Some(upstream), Some(attempt)) = (context.upstream(), &context.attempt) else { return };
        let member = attempt.member();
        if member.answered() {
            let (server, address) = (&*member.name, member.address);
            tracing::info!(upstream = upstream.name, server, %address, "server answers again");
        }
    }
}

fn no_server() -> Box<Error> {
    Error::explain(ErrorType::Custom(NO_SERVER), "no server of the upstream is healthy").into_up()
}

/// What keeps requests on one server, where they are to be kept: what is not there is stood in for by the address.
fn key(balance: &Balance, headers: &HeaderMap, context: &Context) -> Option<u64> {
    let Balance::Hash(kind) = balance else { return None };
    let policy = &context.snapshot.policy;
    let of_address = || {
        let client = context.client.map(|client| policy.address_rules.group(client));
        client.map_or_else(
            || key_of("ip", b""),
            |group| match group {
                IpAddr::V4(address) => key_of("ip", &address.octets()),
                IpAddr::V6(address) => key_of("ip", &address.octets()),
            },
        )
    };
    Some(match kind {
        HashKey::Ip => of_address(),
        HashKey::Consumer => match context.consumer {
            Some(consumer) => key_of("consumer", policy.consumers[consumer].name.as_bytes()),
            None => of_address(),
        },
        HashKey::Header(name) => match &*header_value(headers, name) {
            b"" => of_address(),
            value => key_of("header", value),
        },
    })
}
