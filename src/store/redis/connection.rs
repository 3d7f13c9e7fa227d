//! One connection: resolved, reached, secured, logged in.
//!
//! The client library speaks the protocol over a stream that is made here, so that the TLS configuration is read once and an error
//! says at which step it came.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError, Value};
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

/// Commands that wait to be written before a request has to wait for room.
const PIPELINE_COMMANDS: usize = 1024;

/// Addresses of one name that are tried, all at once.
const MAX_ADDRESSES: usize = 8;

/// A server, and how to speak to it. Shown without user and password.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    login: RedisConnectionInfo,
    tls: Option<TlsConnector>,
}

impl Server {
    /// The server of a URL; `tls` is for `rediss://`. `None` when the URL cannot be read.
    pub fn of_url(url: &str, tls: Option<&TlsConnector>) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = if scheme == "rediss" { Some(tls?.clone()) } else { None };
        let read = format!("redis://{rest}").into_connection_info().ok()?;
        let redis::ConnectionAddr::Tcp(host, port) = read.addr() else { return None };
        Some(Self { host: host.clone(), port: *port, login: read.redis_settings().clone(), tls })
    }

    /// A server that is yet to be named.
    pub fn nowhere(login: RedisConnectionInfo, tls: Option<TlsConnector>) -> Self {
        Self { host: String::new(), port: 0, login, tls }
    }

    /// Another server that is spoken to alike.
    pub fn at(&self, host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, ..self.clone() }
    }

    /// With the user and password filled in, where its URL did not say them.
    pub fn with_login(mut self, login: impl FnOnce(RedisConnectionInfo) -> RedisConnectionInfo) -> Self {
        self.login = login(self.login);
        self
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether both are the same place.
    pub fn is_at(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }

    /// A connection, logged in, within `patience`. An answer that takes longer than `response_timeout` is given up: each call has a
    /// deadline of its own, which is shorter; this one only frees what a dead server holds.
    pub async fn connect(&self, patience: Duration, response_timeout: Duration) -> Result<Connection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(response_timeout))
            .set_pipeline_buffer_size(PIPELINE_COMMANDS);
        let made = tokio::time::timeout(patience, self.make(config)).await;
        made.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()))
    }

    async fn make(&self, config: AsyncConnectionConfig) -> Result<Connection, RedisError> {
        let stream = reach(&self.host, self.port).await?;
        let Some(tls) = &self.tls else { return self.log_in(stream, config).await };
        let unfit = |_| RedisError::from((ErrorKind::InvalidClientConfig, "the server's name is none for TLS"));
        let name = ServerName::try_from(self.host.clone()).map_err(unfit)?;
        self.log_in(tls.connect(name, stream).await?, config).await
    }

    async fn log_in<S>(&self, stream: S, config: AsyncConnectionConfig) -> Result<Connection, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (channel, driver) = MultiplexedConnection::new_with_config(&self.login, stream, config).await?;
        let (running, ended) = watch::channel(());
        let driver = tokio::spawn(async move {
            driver.await;
            drop(running);
        });
        Ok(Connection { channel, driver: driver.abort_handle(), ended })
    }
}

/// The first of the name's addresses that answers.
async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((host, port)).await?;
    let attempts: Vec<_> = addresses.take(MAX_ADDRESSES).map(|address| Box::pin(TcpStream::connect(address))).collect();
    if attempts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    let (stream, _) = futures_util::future::select_ok(attempts).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(formatter, "[{}]:{}", self.host, self.port);
        }
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// A connection; with the last handle to it its socket closes, whatever the server does.
pub struct Connection {
    channel: MultiplexedConnection,
    driver: AbortHandle,
    /// Its sender is dropped when the connection ends.
    ended: watch::Receiver<()>,
}

impl Connection {
    /// A handle to send commands with, for as long as the connection is kept.
    pub fn channel(&self) -> MultiplexedConnection {
        self.channel.clone()
    }

    /// Waits until the server closes the connection, if it does.
    pub async fn end(&self) {
        while self.ended.clone().changed().await.is_ok() {}
    }

    /// Whether the server answers at all: one that only takes connections, or takes back its consent to TLS once it
    /// has seen whom it speaks with, is found here and not by requests.
    pub async fn greet(&self, patience: Duration) -> Result<(), RedisError> {
        let mut channel = self.channel();
        // Every user may ask for the time: the scripts do.
        let command = redis::cmd("TIME");
        let asked = command.query_async::<Value>(&mut channel);
        match tokio::time::timeout(patience, asked).await {
            Ok(Err(error)) if error.code().is_none_or(|code| code == "NOAUTH") => Err(error),
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What went wrong, without what was sent: that may hold a password.
pub fn brief(error: &RedisError) -> String {
    type Inner = std::sync::Arc<dyn std::error::Error + Send + Sync>;
    if let Some(code) = error.code() {
        return format!("{} ({code})", error.category());
    }
    // What the system or TLS says of a socket holds nothing that was sent.
    let inner = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Inner>());
    match inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
        Some(inner) => format!("{}: {inner}", error.category()),
        None => error.category().to_owned(),
    }
}
