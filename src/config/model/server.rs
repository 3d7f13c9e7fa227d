//! `[server]` and `[admin]` as typed data.

use crate::time::Millis;
use rustls::sign::CertifiedKey;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// `[server]`: where requests come in and how long they may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub listen: Vec<SocketAddr>,
    pub tls: Vec<TlsListener>,
    /// 0: one for each core.
    pub threads: usize,
    pub drain: Millis,
    pub header_timeout: Millis,
    pub idle_timeout: Millis,
    pub body_timeout: Millis,
    pub max_header_bytes: u64,
    /// 0: no cap.
    pub max_body_bytes: u64,
    /// 0: no cap.
    pub max_connections_per_ip: usize,
    pub max_parked: u64,
    pub runtime_dir: PathBuf,
}

/// `[[server.tls]]`: a certificate with its key, and the address it is for. Several may share one.
#[derive(Clone, Debug)]
pub struct TlsListener {
    pub listen: SocketAddr,
    pub pair: Arc<CertifiedKey>,
}

impl PartialEq for TlsListener {
    /// A certificate stands for its key, which belongs to it.
    fn eq(&self, other: &Self) -> bool {
        self.listen == other.listen && self.pair.cert == other.pair.cert
    }
}

impl Eq for TlsListener {}

/// `[admin]`: the port for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    pub listen: SocketAddr,
    /// The token read from `token_file`; required when `listen` is not loopback.
    pub token: Option<Secret>,
}

/// A text that must not be seen: `Debug` hides it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for comparing in constant time; never for a log or a page.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}
