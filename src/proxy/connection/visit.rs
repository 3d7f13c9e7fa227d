//! One connection from its first byte to its end.

use super::idle::Idle;
use super::pingora_io::Origin;
use super::socket::{Socket, Transport};
use super::stream::ClientStream;
use super::tls;
use super::{EXCHANGE, Ends, Terms};
use crate::request::head::HeadReader;
use crate::time::Stopwatch;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream, ServerApp};
use pingora::protocols::SocketDigest;
use pingora::protocols::http::ServerSession;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// What an HTTP/2 connection opens with (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The keep-alive that a new connection starts with, in seconds; the first request sets the configured one.
const FIRST_KEEPALIVE_SECONDS: u64 = 60;

/// What a connection is served by.
pub(super) struct Visit {
    terms: Terms,
    opened: Stopwatch,
    ends: Ends,
}

impl Visit {
    pub fn new(terms: Terms, ends: Ends) -> Self {
        Self { terms, opened: Stopwatch::start(), ends }
    }

    pub async fn serve<A>(self, stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, app: Arc<A>)
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let Some(mut stream) = self.secure(stream, peer, tls).await else { return };
        match self.opens_http2(&mut stream).await {
            Some(true) => {
                stream.origin.is_http2 = true;
                stream.open();
                app.process_new(Box::new(stream), self.ends.of_reuse()).await;
            }
            Some(false) => self.serve_http1(stream, app).await,
            None => {}
        }
    }

    /// The TLS handshake, if there is one; absent when the client did not get through it.
    async fn secure(&self, stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>) -> Option<ClientStream> {
        let digest = SocketDigest::from_raw_fd(stream.as_raw_fd());
        digest.peer_addr.set(Some(peer.into())).expect("a new digest has no address yet");
        let mut origin = Origin { socket: Arc::new(digest), tls: None, is_http2: false };
        let Some(tls) = tls else {
            return Some(self.client(Transport::Plain(stream), origin));
        };
        match tokio::time::timeout(self.first_patience(), tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                origin.is_http2 = tls::agreed_on_http2(session);
                origin.tls = Some(tls::digest(session));
                Some(self.client(Transport::Tls(Box::new(stream)), origin))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }

    fn client(&self, transport: Transport, origin: Origin) -> ClientStream {
        ClientStream::new(Socket::new(transport), origin, self.terms.body_timeout)
    }

    /// What is left of the time in which a new connection must come up with a head.
    fn first_patience(&self) -> Duration {
        self.terms.header_timeout.saturating_sub(self.opened.elapsed())
    }

    /// Whether the client speaks HTTP/2; absent when it said nothing in time.
    async fn opens_http2(&self, stream: &mut ClientStream) -> Option<bool> {
        loop {
            let come = stream.unread();
            let length = come.len().min(HTTP2_PREFACE.len());
            if come[..length] != HTTP2_PREFACE[..length] {
                // Whoever agreed on HTTP/2 and speaks something else gets HTTP/2's answer to that.
                return Some(stream.origin.is_http2);
            }
            if length == HTTP2_PREFACE.len() {
                return Some(true);
            }
            let patience = self.first_patience();
            if !self.more(stream, patience, length == 0).await {
                return None;
            }
        }
    }

    /// Waits for bytes; false when none came. A connection that waits for a request ends with the end of waiting.
    async fn more(&self, stream: &mut ClientStream, patience: Duration, is_idle: bool) -> bool {
        let came = tokio::select! {
            biased;
            came = tokio::time::timeout(patience, stream.fill()) => came,
            () = self.ends.of_waiting(), if is_idle => return false,
        };
        matches!(came, Ok(Ok(1..)))
    }

    async fn serve_http1<A>(self, mut stream: ClientStream, app: Arc<A>)
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let mut patience = self.first_patience();
        let mut idle = Idle::new(&self.ends, self.terms.idle_timeout);
        let mut settings = None;
        while self.next_request(&mut stream, &mut idle, patience).await {
            let exchange = stream.exchange.clone();
            let session = self.session(stream, settings);
            let served = EXCHANGE.scope(exchange, app.process_new_http(session, self.ends.of_reuse())).await;
            let Some((kept, kept_settings)) = served.map(ReusedHttpStream::consume) else { return };
            // What was put in comes out again.
            let Ok(kept) = kept.into_any().downcast::<ClientStream>() else { return };
            (stream, settings, patience) = (*kept, kept_settings, self.terms.header_timeout);
        }
    }

    /// Waits for a head and checks it; false when none comes.
    async fn next_request(&self, stream: &mut ClientStream, idle: &mut Idle, patience: Duration) -> bool {
        if stream.unread().is_empty() {
            stream.rest();
            idle.restart();
            if !first_bytes(stream, idle).await {
                return false;
            }
        }
        let mut reader = HeadReader::default();
        // Most heads come whole, and need no deadline.
        if stream.take_head(&mut reader, self.terms.max_header_bytes) {
            return true;
        }
        let rest = stream.rest_of_head(&mut reader, self.terms.max_header_bytes);
        matches!(tokio::time::timeout(patience, rest).await, Ok(Ok(true)))
    }

    fn session(&self, stream: ClientStream, settings: Option<HttpPersistentSettings>) -> ServerSession {
        let mut session = ServerSession::new_http1(Box::new(stream));
        match settings {
            Some(settings) => settings.apply_to_session(&mut session),
            None => session.set_keepalive((!*self.ends.of_reuse().borrow()).then_some(FIRST_KEEPALIVE_SECONDS)),
        }
        session
    }
}

/// Waits for the first bytes of a request; false when none came.
async fn first_bytes(stream: &mut ClientStream, idle: &mut Idle) -> bool {
    poll_fn(|cx| match stream.poll_fill(cx) {
        Poll::Ready(came) => Poll::Ready(matches!(came, Ok(1..))),
        Poll::Pending => idle.poll(cx).map(|()| false),
    })
    .await
}
