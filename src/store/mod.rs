//! Where counters live.
//!
//! A [`Store`] owns atomicity and nothing else: the arithmetic is the meter's. It knows no request, policy or
//! configuration. The decision sees this trait alone, so that every store gives the same answers.

pub mod breaker;
pub mod deny_cache;
pub mod fallback;
pub mod memory;
pub mod moving;
pub mod redis;
pub mod shared;

use crate::charge::{Charge, Correction, Outcome};
use crate::time::Timestamp;
use std::future::Future;
use std::pin::Pin;

/// A store's answer: at once where it can be, so that a decision in memory neither allocates nor yields.
pub enum Answer<'a, T> {
    /// Already known.
    Ready(T),
    /// To be awaited.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Answer<'_, T> {
    /// The value, awaited if need be.
    pub async fn resolve(self) -> T {
        match self {
            Self::Ready(value) => value,
            Self::Later(future) => future.await,
        }
    }
}

/// Why a store gave no answer. The display text is for the log; clients see `limiter_unavailable`.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or did not answer in time.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store did not answer in time. What was asked may still have been done there.
    #[error("the store did not answer in time")]
    Timeout,
    /// The store answered with an error, named by its code.
    #[error("the store refused: {0}")]
    Refused(String),
    /// What was asked for lies at two servers for the moment, one key here and one there: each key has to be asked for alone.
    #[error("the counters are on their way from one server to another")]
    Apart,
    /// The store's answer makes no sense.
    #[error("the store's answer is not understood: {0}")]
    Nonsense(&'static str),
    /// The store failed, and a limit asks for the request to be refused then.
    #[error("the store failed and a limit is set to refuse")]
    Closed,
}

impl StoreError {
    /// The `kind` of the metric.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Timeout => "timeout",
            Self::Refused(_) => "refused",
            Self::Apart => "apart",
            Self::Nonsense(_) => "nonsense",
            Self::Closed => "closed",
        }
    }
}

/// Keeps counters.
pub trait Store: Send + Sync + 'static {
    /// The label in metrics.
    fn name(&self) -> &'static str;

    /// Takes all charges or none: none when an enforced one does not fit. A charge that is not enforced and does not
    /// fit is reported and not taken. `now` is ignored by a store that has a clock of its own.
    fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>>;

    /// Applies corrections of charges taken earlier.
    fn settle<'a>(&'a self, now: Timestamp, corrections: &'a [Correction<'_>]) -> Answer<'a, Result<(), StoreError>>;

    /// Forgets the counters named (their cost is ignored); true for each that existed.
    fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>>;

    /// Counters held, where that is known.
    fn entries(&self) -> Option<u64>;
}
