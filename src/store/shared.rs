//! What a store that gateways share looks like to the code that guards it: one or more shards that may fail apart.
//!
//! A single Redis is one shard. On a Cluster each slot is one, since a call may only touch one slot, and each master has a
//! breaker, so that a dead one costs only the counters of its slots.

use super::StoreError;
use super::breaker::Breaker;
use crate::charge::{Charge, Correction, Outcome};
use crate::time::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A call under way.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The part of a store that one call can touch.
pub type Shard = u16;

/// A store that may fail.
pub trait Shared: Send + Sync + 'static {
    /// The label in metrics.
    fn name(&self) -> &'static str;

    /// Where a counter is.
    fn shard(&self, charge: &Charge<'_>) -> Shard;

    /// Whether two counters of one shard are under one key, so that they are never apart (see [`StoreError::Apart`]).
    fn share_a_key(&self, one: &Charge<'_>, other: &Charge<'_>) -> bool;

    /// How calls of that shard have gone lately.
    fn breaker(&self, shard: Shard) -> Arc<Breaker>;

    /// All charges, all of that shard, or none.
    fn acquire<'a>(&'a self, shard: Shard, now: Timestamp, charges: &'a [Charge<'_>]) -> Call<'a, Outcome>;

    /// Corrections, all of that shard.
    fn settle<'a>(&'a self, shard: Shard, now: Timestamp, corrections: &'a [Correction<'_>]) -> Call<'a, ()>;

    /// Forgets counters, all of that shard; true for each that existed.
    fn forget<'a>(&'a self, shard: Shard, charges: &'a [Charge<'_>]) -> Call<'a, Vec<bool>>;

    /// Tries a real write on every server whose breaker is open; those that took it are told to their breakers. True when
    /// any breaker closed.
    fn probe(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;

    /// Waits until a server was connected anew since this was last awaited.
    fn connected(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Whether any breaker is open.
    fn is_degraded(&self) -> bool;
}
