//! `[store]` as typed data.

use super::{OnStoreError, Secret};
use crate::time::Millis;

/// `[store]`: where counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Counters kept in memory: all of them, or those of the local limiter beside a shared store.
    pub max_entries: u64,
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
    pub prefix: String,
    /// For one decision.
    pub timeout: Millis,
    pub on_error: OnStoreError,
    /// Gateways that share the store; 1 or more.
    pub instances: u32,
}
