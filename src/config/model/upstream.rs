//! `[upstreams.NAME]` as typed data.

use super::Located;
use crate::time::Millis;

/// `[upstreams.NAME]`: the servers that requests are forwarded to.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub name: Located<String>,
    pub servers: Vec<UpstreamServer>,
    pub balance: Balance,
    pub protocol: UpstreamProtocol,
    /// Absent: cleartext.
    pub tls: Option<UpstreamTls>,
    /// Absent: servers are not checked.
    pub health: Option<HealthCheck>,
    pub connect_timeout: Millis,
    pub read_timeout: Millis,
    pub write_timeout: Millis,
    /// At most [`crate::config::MAX_RETRIES`].
    pub retries: u32,
}

/// A server's `host:port`; a name is resolved when the configuration is put in force, and again from time to time.
#[derive(Clone, Debug)]
pub struct UpstreamServer {
    pub address: Located<String>,
    /// 1 to 65535.
    pub weight: u32,
}

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    Http1,
    H2,
}

/// How the server of a request is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    RoundRobin,
    LeastConnections,
    Hash(HashKey),
}

/// What requests to one and the same server have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    Ip,
    /// The address for callers without a key.
    Consumer,
    /// Lower-case name; the address for requests without it.
    Header(String),
}

/// `tls` of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The name that a certificate must have. Absent: the host part of the server's own address.
    pub server_name: Option<String>,
    /// DER certificates of `ca_file`, each good as a trust anchor. Absent: those of the system.
    pub authorities: Option<Vec<Vec<u8>>>,
    /// Whether certificates are looked at.
    pub verify: bool,
}

/// `health` of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query.
    pub path: String,
    pub interval: Millis,
    pub timeout: Millis,
    /// Bad checks in a row that take a server down, 1 or more.
    pub fall: u32,
    /// Good checks in a row that bring it back, 1 or more.
    pub rise: u32,
}
