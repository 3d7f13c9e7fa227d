//! `[store]` as typed data.

use super::{OnStoreError, Secret};
use crate::time::Millis;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::sync::Arc;

/// `[store]`: where counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Counters kept in memory: all of them, or those of the local limiter beside a shared store.
    pub max_entries: u64,
    /// A file in which the counters of the memory store outlive the process; absent: they do not.
    pub snapshot: Option<PathBuf>,
    /// The shared store, when the backend is one.
    pub redis: Option<Redis>,
}

/// How many servers there are, and how they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single,
    Sentinel,
    Cluster,
}

/// `[store.redis]`: the shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    pub mode: RedisMode,
    /// They may hold passwords. In sentinel mode: the sentinels.
    pub urls: Vec<Secret>,
    pub master: String,
    /// Of the data servers, where the URLs do not say it.
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// Whether the data servers speak TLS; sentinels do where their URL says so.
    pub data_tls: bool,
    pub tls: RedisTls,
    pub prefix: String,
    /// For one decision.
    pub timeout: Millis,
    pub on_error: OnStoreError,
    /// Gateways that share the store; 1 or more.
    pub instances: u32,
}

/// How TLS is spoken with every server that speaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisTls {
    /// Trusted instead of the authorities of the system; none: those.
    pub authorities: Vec<CertificateDer<'static>>,
    /// What the gateway shows of itself.
    pub identity: Option<Identity>,
    /// Whether a server has to prove who it is.
    pub verify: bool,
}

/// A certificate with those that lead to its authority, and its key. No key is shown by `Debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: Arc<PrivateKeyDer<'static>>,
}
