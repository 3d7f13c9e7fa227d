//! Upstreams as Pingora needs them: peers, deadlines, retries.
//!
//! Which server a request goes to is decided in [`crate::upstream`]; here are its connection, the checks of servers
//! ([`check`], [`watch`]), the names they have ([`names`]) and TLS ([`tls`]). Nothing here charges a limit: choosing a
//! server again for a retry costs the caller nothing. Nothing here asks a name server while a request waits.

mod check;
mod choose;
mod names;
mod tls;
pub mod watch;

pub use choose::NO_SERVER;

use crate::config::Problem;
use crate::config::model::{self, HealthCheck, Upstream as Written, UpstreamProtocol};
use crate::time::Millis;
use crate::upstream::{Member, Place, Pool, key_of};
use parking_lot::Mutex;
use pingora::protocols::ALPN;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};
use std::time::Duration;
use tls::Tls;

/// How long an unused connection to a server is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Requests that share one HTTP/2 connection to a server.
const H2_STREAMS: usize = 32;

/// Bytes of one response that a server may send ahead of its client.
const H2_STREAM_WINDOW: u32 = 512 << 10;

/// The same of all responses on a connection. With room for all of them, a client that reads slowly holds up nobody else.
const H2_CONNECTION_WINDOW: u32 = H2_STREAM_WINDOW * H2_STREAMS as u32;

/// How often an HTTP/2 connection is tried out. One that stands but leads nowhere would otherwise time out request after
/// request; over HTTP/1.1 a request that times out takes its connection along.
const H2_PING_INTERVAL: Duration = Duration::from_secs(10);

/// One upstream, ready to be used.
pub struct Upstream {
    pub name: String,
    /// The servers as configured, each with the addresses found last.
    places: Mutex<Vec<Place>>,
    /// Where each of them is written.
    written_at: Vec<model::Place>,
    pool: Pool,
    health: Option<HealthCheck>,
    protocol: UpstreamProtocol,
    tls: Option<Tls>,
    /// Connections are shared by peers of the same group: those that speak alike and believe the same authorities.
    group: u64,
    connect_timeout: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    retries: u32,
}

impl Upstream {
    /// Servers that are names have no address until [`Upstream::resolve`].
    pub fn compile(written: &Written, problems: &mut Vec<Problem>) -> Self {
        let tls = written.tls.as_ref().and_then(|tls| match Tls::new(tls) {
            Ok(tls) => Some(tls),
            Err(message) => {
                problems.push(Problem::error(written.name.at, message));
                None
            }
        });
        let speaks: &[u8] = if written.protocol == UpstreamProtocol::H2 { b"h2" } else { b"http1" };
        let group = key_of("peer", &[speaks, &tls.as_ref().map_or(0, Tls::digest).to_le_bytes()].concat());
        Self {
            name: written.name.value.clone(),
            places: Mutex::new(written.servers.iter().map(names::unresolved).collect()),
            written_at: written.servers.iter().map(|server| server.address.at).collect(),
            pool: Pool::new(written.balance.clone(), written.health.is_some()),
            health: written.health.clone(),
            protocol: written.protocol,
            tls,
            group,
            connect_timeout: written.connect_timeout.to_duration(),
            read_timeout: written.read_timeout.to_duration(),
            write_timeout: written.write_timeout.to_duration(),
            retries: written.retries,
        }
    }

    /// How a member is connected to. `read_timeout` is the route's own, if it has one.
    fn peer(&self, member: &Member, read_timeout: Option<Millis>) -> HttpPeer {
        let name = self.tls.as_ref().map_or("", |tls| tls.server_name(&member.name));
        let mut peer = HttpPeer::new(member.address, self.tls.is_some(), name.to_owned());
        peer.group_key = self.group;
        let options = &mut peer.options;
        options.connection_timeout = Some(self.connect_timeout);
        options.total_connection_timeout = Some(self.connect_timeout);
        options.read_timeout = Some(read_timeout.map_or(self.read_timeout, Millis::to_duration));
        options.write_timeout = Some(self.write_timeout);
        options.idle_timeout = Some(IDLE_TIMEOUT);
        if self.protocol == UpstreamProtocol::H2 {
            options.alpn = ALPN::H2;
            options.max_h2_streams = H2_STREAMS;
            options.h2_ping_interval = Some(H2_PING_INTERVAL);
            options.h2_stream_window_size = Some(H2_STREAM_WINDOW);
            options.h2_connection_window_size = Some(H2_CONNECTION_WINDOW);
        }
        if let Some(tls) = &self.tls {
            tls.apply(options);
        }
        peer
    }

    /// Whether a request that failed after `tries` attempts may be tried again: when nothing of it was sent, or when
    /// its method is idempotent, all of its body is at hand and no response has begun. A server that does not answer
    /// in time is not asked again: that would only double the wait.
    pub fn may_retry(&self, tries: u32, session: &Session, error: &Error, sent: bool) -> bool {
        if tries > self.retries {
            return false;
        }
        if !sent {
            return true;
        }
        !is_timeout(error)
            && session.req_header().method.is_idempotent()
            && !session.as_downstream().retry_buffer_truncated()
            && session.response_written().is_none()
    }
}

/// Whether a server that was connected did not go on in time.
fn is_timeout(error: &Error) -> bool {
    matches!(error.etype(), ErrorType::ReadTimedout | ErrorType::WriteTimedout)
}
