//! Accepting connections and the life of each until it is closed.
//!
//! HTTP/1.1 and cleartext HTTP/2 share a port: a connection that opens with the HTTP/2 preface is HTTP/2. A watchdog
//! closes a connection that takes longer than its deadline to deliver a whole request header, however slowly it
//! drips: the first header has `timeouts.header`, each later one `timeouts.idle` and `timeouts.header` together.

use crate::config::model::Server;
use pingora::apps::{HttpServerApp, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::{GetSocketDigest, SocketDigest};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What an HTTP/2 connection opens with (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long to wait before looking at a half-arrived preface again.
const PREFACE_POLL: Duration = Duration::from_millis(5);

/// How long to pause when no connection can be accepted, most likely because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The keep-alive that a new connection starts with, in seconds; the first request sets the configured one.
const FIRST_KEEPALIVE_SECONDS: u64 = 60;

tokio::task_local! {
    /// The connection that the running request came by; HTTP/2 streams run in tasks of their own and have none.
    static WATCHDOG: Arc<Watchdog>;
}

/// How long a connection may be without a whole request header.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    first: Duration,
    later: Duration,
}

impl Deadlines {
    pub fn new(server: &Server) -> Self {
        let header = server.header_timeout.to_duration();
        Self { first: header, later: server.idle_timeout.to_duration() + header }
    }
}

/// Counts open connections.
#[derive(Clone, Debug)]
pub struct Connections(Arc<AtomicUsize>);

impl Connections {
    pub fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    pub fn open(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn count(&self) -> Counted {
        self.0.fetch_add(1, Ordering::AcqRel);
        Counted(self.0.clone())
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells a connection's task how long from now a header may take; absent while a request is served.
struct Watchdog {
    patience: watch::Sender<Option<Duration>>,
    later: Duration,
}

/// The header of a request is complete: the watchdog sleeps.
pub fn request_began() {
    let _ = WATCHDOG.try_with(|watchdog| watchdog.patience.send_replace(None));
}

/// A request was answered: the next header has its deadline.
pub fn request_ended() {
    let _ = WATCHDOG.try_with(|watchdog| watchdog.patience.send_replace(Some(watchdog.later)));
}

/// Accepts until the shutdown begins. `deadlines` are asked for each connection, so that a reload changes those of later ones.
pub async fn accept<A>(
    listener: TcpListener,
    app: Arc<A>,
    connections: Connections,
    deadlines: impl Fn() -> Deadlines + Send,
    mut shutting_down: watch::Receiver<bool>,
) where
    A: HttpServerApp + Send + Sync + 'static,
{
    while let Some(stream) = next(&listener, &mut shutting_down).await {
        let (app, counted, shutting_down) = (app.clone(), connections.count(), shutting_down.clone());
        let deadlines = deadlines();
        tokio::spawn(async move {
            serve(stream, app, deadlines, shutting_down).await;
            drop(counted);
        });
    }
}

/// Accepts plain HTTP/1.1 to the end of the process: probes must be answered while draining.
pub async fn accept_http1<A>(listener: TcpListener, app: Arc<A>, shutting_down: watch::Receiver<bool>)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let (_never, mut open) = watch::channel(false);
    while let Some(stream) = next(&listener, &mut open).await {
        let (app, shutting_down) = (app.clone(), shutting_down.clone());
        tokio::spawn(async move { serve_http1(stream.into_pingora(), app, &shutting_down).await });
    }
}

async fn next(listener: &TcpListener, shutting_down: &mut watch::Receiver<bool>) -> Option<Accepted> {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = shutting_down.wait_for(|down| *down) => return None,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A socket that is already dead fails at its first read anyway.
                let _ = stream.set_nodelay(true);
                return Some(Accepted { stream, peer });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Accepted {
    stream: TcpStream,
    peer: std::net::SocketAddr,
}

impl Accepted {
    fn into_pingora(self) -> Stream {
        let digest = SocketDigest::from_raw_fd(self.stream.as_raw_fd());
        digest.peer_addr.set(Some(self.peer.into())).expect("a new digest has no address yet");
        let mut stream = Stream::from(self.stream);
        stream.set_socket_digest(digest);
        stream
    }
}

async fn serve<A>(accepted: Accepted, app: Arc<A>, deadlines: Deadlines, shutting_down: watch::Receiver<bool>)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let Ok(Some(http2)) = tokio::time::timeout(deadlines.first, opens_http2(&accepted.stream)).await else { return };
    if http2 {
        app.process_new(Box::new(accepted.into_pingora()), &shutting_down).await;
        return;
    }
    let (patience, mut expiry) = watch::channel(Some(deadlines.first));
    let watchdog = Arc::new(Watchdog { patience, later: deadlines.later });
    let served = WATCHDOG.scope(watchdog, serve_http1(accepted.into_pingora(), app, &shutting_down));
    tokio::select! {
        () = served => {}
        () = expired(&mut expiry) => {}
    }
}

/// Whether the client opens with the HTTP/2 preface; absent when it closed without a byte.
async fn opens_http2(stream: &TcpStream) -> Option<bool> {
    let mut start = [0; HTTP2_PREFACE.len()];
    loop {
        let length = stream.peek(&mut start).await.ok()?;
        match length {
            0 => return None,
            _ if start[..length] != HTTP2_PREFACE[..length] => return Some(false),
            _ if length == HTTP2_PREFACE.len() => return Some(true),
            _ => tokio::time::sleep(PREFACE_POLL).await,
        }
    }
}

async fn expired(expiry: &mut watch::Receiver<Option<Duration>>) {
    loop {
        let patience = *expiry.borrow_and_update();
        let changed = match patience {
            Some(patience) => match tokio::time::timeout(patience, expiry.changed()).await {
                Ok(changed) => changed,
                Err(_) => return,
            },
            None => expiry.changed().await,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn serve_http1<A>(stream: Stream, app: Arc<A>, shutting_down: &watch::Receiver<bool>)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let mut session = ServerSession::new_http1(Box::new(stream));
    session.set_keepalive((!*shutting_down.borrow()).then_some(FIRST_KEEPALIVE_SECONDS));
    session.set_pipelining_enabled(true);
    let mut reused = app.process_new_http(session, shutting_down).await;
    while let Some((stream, settings)) = reused.map(pingora::apps::ReusedHttpStream::consume) {
        let mut session = ServerSession::new_http1(stream);
        if let Some(settings) = settings {
            settings.apply_to_session(&mut session);
        }
        reused = app.process_new_http(session, shutting_down).await;
    }
}
