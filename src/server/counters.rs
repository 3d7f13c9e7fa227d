//! Where the counters of this process are, and what goes on with them in the background.

use super::snapshot_file::{self, SnapshotFile};
use super::upgrade::Predecessor;
use crate::admin::Health;
use crate::config::model::{Config, OnStoreError, Redis, Store as Model};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::store::deny_cache::DenyCache;
use crate::store::fallback::Guarded;
use crate::store::memory::{MemoryStore, SWEEP_BUDGET};
use crate::store::moving::Moving;
use crate::store::redis::RedisStore;
use crate::time::Clock;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often the memory store is swept: what [`SWEEP_BUDGET`] is made for.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How long a start waits for the shared store.
const FIRST_CONTACT: Duration = Duration::from_secs(2);

/// The store of the gateway, opened.
pub(super) struct Counters {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub health: Box<dyn Fn() -> Health + Send + Sync>,
    /// The memory store, when that is the one that decides.
    pub moving: Option<Arc<Moving>>,
    pub file: Option<Arc<SnapshotFile>>,
}

impl Counters {
    /// Opens the store; counters come from the process before, else from the file, else begin afresh.
    pub async fn open(
        config: &Config,
        predecessor: Option<&mut Predecessor>,
        metrics: &Arc<Metrics>,
    ) -> io::Result<Self> {
        match &config.store.redis {
            Some(redis) => Self::shared(redis, max_entries(&config.store), metrics).await,
            None => Self::own(&config.store, predecessor, metrics),
        }
    }

    fn own(config: &Model, predecessor: Option<&mut Predecessor>, metrics: &Arc<Metrics>) -> io::Result<Self> {
        let max_entries = max_entries(config);
        let handed = predecessor.map(|before| before.counters(max_entries)).transpose()?.flatten();
        let (memory, clock) = handed.unwrap_or_else(|| {
            let clock = Clock::start();
            let restored = config.snapshot.as_ref();
            let restored = restored.and_then(|path| snapshot_file::restore(path, max_entries, clock.now()));
            (restored.unwrap_or_else(|| MemoryStore::new(max_entries)), clock)
        });
        let memory = Arc::new(memory);
        tokio::spawn(sweep(memory.clone(), clock, metrics.clone()));
        let file = config.snapshot.clone().map(|path| Arc::new(SnapshotFile::new(path, memory.clone(), clock)));
        let moving = Arc::new(Moving::new(memory));
        Ok(Self { store: moving.clone(), clock, health: Box::new(|| Health::Good), moving: Some(moving), file })
    }

    /// Opens the shared store, with a memory store beside it for when it fails.
    async fn shared(redis: &Redis, max_entries: usize, metrics: &Arc<Metrics>) -> io::Result<Self> {
        let clock = Clock::start();
        let memory = Arc::new(MemoryStore::new(max_entries));
        let store = RedisStore::open(redis).map_err(io::Error::other)?;
        store.first_contact(FIRST_CONTACT).await;
        let guarded = Guarded::new(store, memory.clone(), redis.timeout, metrics.clone());
        tokio::spawn(guarded.clone().watch());
        tokio::spawn(sweep(memory, clock, metrics.clone()));
        let store = Arc::new(DenyCache::new(guarded.clone(), metrics.clone()));
        let health = health(redis, guarded);
        Ok(Self { store, clock, health, moving: None, file: None })
    }
}

fn max_entries(config: &Model) -> usize {
    usize::try_from(config.max_entries).unwrap_or(usize::MAX)
}

/// How the store is, for the readiness probe: with `on_error = "closed"` a gateway that has lost it is not ready.
fn health(redis: &Redis, shared: Arc<Guarded<RedisStore>>) -> Box<dyn Fn() -> Health + Send + Sync> {
    let closed = redis.on_error == OnStoreError::Closed;
    Box::new(move || match (shared.is_degraded(), closed) {
        (false, _) => Health::Good,
        (true, false) => Health::Degraded,
        (true, true) => Health::Bad,
    })
}

async fn sweep(store: Arc<MemoryStore>, clock: Clock, metrics: Arc<Metrics>) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        store.sweep(clock.now(), SWEEP_BUDGET);
        metrics.store_holds(store.entries().unwrap_or_default(), store.evictions());
    }
}
