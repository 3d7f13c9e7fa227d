//! Accepting connections and the life of each until it is closed.
//!
//! HTTP/1.1 and HTTP/2 share a port: a connection that opens with the HTTP/2 preface is HTTP/2. An HTTP/1 connection serves one
//! request after the other; a head has a total deadline, however slowly it drips, and is checked before anything else reads it
//! ([`crate::request::head`]).
//!
//! Never done here: deciding about a request. What a connection knows of the one that runs on it is a fault of its head, and
//! whether it became a tunnel.

mod count;
mod ends;
mod idle;
mod pingora_io;
mod socket;
mod stream;
mod tls;
mod visit;

pub use count::Connections;
pub use ends::{Ends, Stop};
pub use tls::{Certificates, acceptor};

use crate::config::model::Server;
use crate::request::head::{Fault, MAX_HEADER_LINES};
use pingora::apps::HttpServerApp;
use pingora::protocols::http::v2::server::H2Options;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stream::Exchange;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use visit::Visit;

/// How long to pause when no connection can be accepted, most likely because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Requests of one HTTP/2 connection at once.
const MAX_HTTP2_STREAMS: u32 = 128;

/// What a client may have under way to the gateway, in one stream and on a connection as a whole: a stream whose body waits
/// for its turn, or for its upstream, holds up no other until sixteen of them wait.
const HTTP2_STREAM_WINDOW: u32 = 64 << 10;
const HTTP2_CONNECTION_WINDOW: u32 = 1 << 20;

/// What a stream keeps of a response that its client does not take.
const HTTP2_SEND_BUFFER_BYTES: usize = 64 << 10;

tokio::task_local! {
    /// The connection that the running request came by; HTTP/2 streams run in tasks of their own and have none.
    static EXCHANGE: Arc<Exchange>;
}

/// What a new connection may do; a reload changes those of later ones.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// For a whole head, from its first byte.
    header_timeout: Duration,
    /// Between a response and the first byte of the next request.
    idle_timeout: Duration,
    body_timeout: Duration,
    max_header_bytes: usize,
    /// Who shares the cap on connections with the peer, and the cap; absent without one.
    cap: Option<(IpAddr, usize)>,
}

impl Terms {
    /// Without a cap on connections.
    pub fn new(server: &Server) -> Self {
        Self {
            header_timeout: server.header_timeout.to_duration(),
            idle_timeout: server.idle_timeout.to_duration(),
            body_timeout: server.body_timeout.to_duration(),
            max_header_bytes: usize::try_from(server.max_header_bytes).unwrap_or(usize::MAX),
            cap: None,
        }
    }

    /// At most so many connections of the group at once; 0 for no cap.
    pub fn capped(self, group: IpAddr, connections: usize) -> Self {
        Self { cap: (connections > 0).then_some((group, connections)), ..self }
    }
}

impl Default for Terms {
    /// Those of the admin port.
    fn default() -> Self {
        let timeout = Duration::from_secs(60);
        Self {
            header_timeout: timeout,
            idle_timeout: timeout,
            body_timeout: timeout,
            max_header_bytes: 32 << 10,
            cap: None,
        }
    }
}

/// The bounds of an HTTP/2 connection. Those on streams that a client opens and resets at once are the h2 crate's: beyond some
/// twenty that nobody has seen yet it ends the connection.
pub fn http2_options(server: &Server) -> H2Options {
    let mut options = H2Options::default();
    options.max_concurrent_streams(MAX_HTTP2_STREAMS);
    options.initial_window_size(HTTP2_STREAM_WINDOW);
    options.initial_connection_window_size(HTTP2_CONNECTION_WINDOW);
    options.max_send_buffer_size(HTTP2_SEND_BUFFER_BYTES);
    // HTTP/2 counts 32 bytes more for each line (RFC 9113, section 6.5.2). What is over it gets a bare 431 from below.
    let lines = u32::try_from(MAX_HEADER_LINES * 32).unwrap_or(u32::MAX);
    options.max_header_list_size(u32::try_from(server.max_header_bytes).unwrap_or(u32::MAX).saturating_mul(2) + lines);
    options
}

/// Why the running request's head was refused, if it was.
pub(super) fn fault() -> Option<Fault> {
    EXCHANGE.try_with(|exchange| exchange.fault.get().copied()).ok().flatten()
}

/// The upstream has agreed to switch protocols: what the client sends from now on is no request any more.
pub(super) fn becomes_tunnel() {
    // An HTTP/2 stream has no connection to itself, and no such answer either.
    let _ = EXCHANGE.try_with(|exchange| exchange.tunnel.store(true, Ordering::Release));
}

/// A listening socket and how its connections are served.
pub struct Listener<T> {
    /// Closed with the last one who holds it.
    pub socket: Arc<TcpListener>,
    /// Absent in clear.
    pub tls: Option<TlsAcceptor>,
    pub connections: Connections,
    /// Asked for each connection, by the peer's address.
    pub terms: T,
}

impl Listener<fn(IpAddr) -> Terms> {
    /// For operators, or the process itself: in clear, without a cap, in nobody's count.
    pub fn private(socket: Arc<TcpListener>) -> Self {
        Self { socket, tls: None, connections: Connections::default(), terms: |_| Terms::default() }
    }
}

impl<T: Fn(IpAddr) -> Terms> Listener<T> {
    /// Accepts until the end of accepting; connections that are open then go on to their own.
    pub async fn accept<A>(self, app: Arc<A>, mut ends: Ends)
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        while let Some((stream, peer)) = self.next(&mut ends).await {
            let terms = (self.terms)(peer.ip());
            // One over the cap is closed without a word: answering would be the work that the cap is there to save.
            let Some(counted) = self.connections.count(terms.cap) else { continue };
            let (app, tls, ends) = (app.clone(), self.tls.clone(), ends.clone());
            tokio::spawn(async move {
                Visit::new(terms, ends).serve(stream, peer, tls, app).await;
                drop(counted);
            });
        }
    }

    async fn next(&self, ends: &mut Ends) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = ends.of_accepting() => return None,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // A socket that is already dead fails at its first read anyway.
                    let _ = stream.set_nodelay(true);
                    return Some((stream, peer));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}
