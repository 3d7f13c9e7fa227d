//! A server that speaks HTTP/1.1 or HTTP/2, with or without TLS, and tells how it was spoken to.

use super::authority::Identity;
use http::{HeaderMap, Response, StatusCode};
use rustls::ServerConfig;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `h2` or `http/1.1`.
    pub protocol: &'static str,
    /// The name that was asked for in the handshake.
    pub server_name: Option<String>,
    pub path: String,
    pub host: String,
}

/// The server; it stops when dropped.
pub struct Backend {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    /// What is answered; 0 is 200.
    status: AtomicUsize,
}

impl Backend {
    /// Cleartext HTTP/2 by prior knowledge.
    pub fn h2c() -> Self {
        Self::start(None)
    }

    /// TLS with these protocols on offer, such as `h2`.
    pub fn tls(identity: Identity, protocols: &[&str]) -> Self {
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("the provider has the versions");
        let built = builder.with_no_client_auth().with_single_cert(vec![identity.certificate], identity.key);
        let mut config = built.expect("the key is that of the certificate");
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self::start(Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket takes it");
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads are to be had");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it is a listener");
            while let Ok((stream, _)) = listener.accept().await {
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, tls.clone(), Arc::clone(&accepting)));
            }
        });
        Self { address, shared, _runtime: runtime }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("nothing panics while it holds the list").clone()
    }

    /// Connections taken, those included whose handshake failed.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// What it answers from now on.
    pub fn answer(&self, status: u16) {
        self.shared.status.store(usize::from(status), Ordering::SeqCst);
    }
}

impl Shared {
    fn note(&self, seen: Seen) -> u16 {
        self.seen.lock().expect("nothing panics while it holds the list").push(seen);
        match self.status.load(Ordering::SeqCst) {
            0 => 200,
            status => u16::try_from(status).expect("it was one"),
        }
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let Some(tls) = tls else { return serve_h2(stream, None, &shared).await };
    let Ok(stream) = tls.accept(stream).await else { return };
    let name = stream.get_ref().1.server_name().map(str::to_string);
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_h2(stream, name, &shared).await;
    } else {
        let _ends_with_the_peer = serve_http1(stream, name, &shared).await;
    }
}

/// Answers `ok` and, as gRPC does, trailers.
async fn serve_h2(stream: impl AsyncRead + AsyncWrite + Unpin, server_name: Option<String>, shared: &Shared) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let authority = request.uri().authority().map(ToString::to_string);
        let host = request.headers().get("host").and_then(|host| host.to_str().ok()).map(str::to_string);
        let status = shared.note(Seen {
            protocol: "h2",
            server_name: server_name.clone(),
            path: request.uri().path().to_string(),
            host: authority.or(host).unwrap_or_default(),
        });
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).expect("tests know their statuses");
        let Ok(mut body) = respond.send_response(response, false) else { continue };
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let _the_peer_may_be_gone = body.send_data(bytes::Bytes::from_static(b"ok"), false);
        let _the_peer_may_be_gone = body.send_trailers(trailers);
    }
}

async fn serve_http1(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    server_name: Option<String>,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).await?;
            head.push(byte[0]);
        }
        let (first, headers) = super::wire::parse_head(&head);
        let status = shared.note(Seen {
            protocol: "http/1.1",
            server_name: server_name.clone(),
            path: first.split(' ').nth(1).unwrap_or_default().to_string(),
            host: super::wire::find(&headers, "host").unwrap_or_default().to_string(),
        });
        let answer = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await?;
        head.clear();
    }
}
