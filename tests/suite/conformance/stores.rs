//! The stores that have to agree, each as the gateway has it, with the servers they need.

use crate::support::free_port;
use crate::support::redis::{MASTER, RedisCluster, RedisServer, Sentinels};
use sluicegate::config::model::{OnStoreError, Redis, RedisMode, Secret};
use sluicegate::metrics::Metrics;
use sluicegate::store::Store;
use sluicegate::store::deny_cache::DenyCache;
use sluicegate::store::fallback::Guarded;
use sluicegate::store::memory::MemoryStore;
use sluicegate::store::redis::RedisStore;
use sluicegate::time::Millis;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// For one decision; long, so that a busy machine is not taken for a dead server.
const TIMEOUT: Millis = Millis(20_000);

/// Counters of all scripts, with room to spare.
const MAX_ENTRIES: usize = 100_000;

/// Where counters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Single,
    Sentinel,
    Cluster,
    /// The limiter that takes over where Redis is down.
    StandIn,
}

/// A store and what it stands on.
pub struct Opened {
    pub kind: Kind,
    pub store: Arc<dyn Store>,
    pub runtime: Runtime,
    _servers: Box<dyn Any>,
}

impl Opened {
    pub fn start(kind: Kind) -> Self {
        let runtime = runtime();
        let url = |server: &RedisServer| server.url();
        let (store, servers): (Arc<dyn Store>, Box<dyn Any>) = match kind {
            Kind::Memory => (Arc::new(MemoryStore::new(MAX_ENTRIES)), Box::new(())),
            Kind::Single => {
                let server = RedisServer::start();
                (shared(&runtime, RedisMode::Single, vec![server.url()]), Box::new(server))
            }
            Kind::Sentinel => {
                let set = Sentinels::start();
                let urls = set.sentinels.iter().map(url).collect();
                (shared(&runtime, RedisMode::Sentinel, urls), Box::new(set))
            }
            Kind::Cluster => {
                let cluster = RedisCluster::start(3, 0);
                let urls = cluster.masters.iter().map(url).collect();
                (shared(&runtime, RedisMode::Cluster, urls), Box::new(cluster))
            }
            Kind::StandIn => {
                let nobody = format!("redis://127.0.0.1:{}/0", free_port());
                (shared(&runtime, RedisMode::Single, vec![nobody]), Box::new(()))
            }
        };
        Self { kind, store, runtime, _servers: servers }
    }

    /// A store before these servers, which stay the test's.
    pub fn before(kind: Kind, servers: &[RedisServer]) -> Self {
        let runtime = runtime();
        let mode = if kind == Kind::Cluster { RedisMode::Cluster } else { RedisMode::Single };
        let store = shared(&runtime, mode, servers.iter().map(RedisServer::url).collect());
        Self { kind, store, runtime, _servers: Box::new(()) }
    }

    pub fn is_stand_in(&self) -> bool {
        self.kind == Kind::StandIn
    }
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime starts")
}

/// The shared store with all that the gateway puts before it.
fn shared(runtime: &Runtime, mode: RedisMode, urls: Vec<String>) -> Arc<dyn Store> {
    let settings = Redis {
        mode,
        urls: urls.into_iter().map(Secret::new).collect(),
        master: MASTER.to_owned(),
        username: None,
        password: None,
        prefix: "sluicegate".to_owned(),
        timeout: TIMEOUT,
        on_error: OnStoreError::Local,
        instances: 1,
    };
    let metrics = Arc::new(Metrics::new());
    let _entered = runtime.enter();
    let store = RedisStore::open_at_given_time(&settings).expect("the URLs can be read");
    let local = Arc::new(MemoryStore::new(MAX_ENTRIES));
    // A server that is not there is not waited for.
    let patience = if urls_answer(&settings) { Duration::from_secs(20) } else { Duration::from_millis(1) };
    runtime.block_on(store.first_contact(patience));
    Arc::new(DenyCache::new(Guarded::new(store, local, TIMEOUT, metrics.clone()), metrics))
}

fn urls_answer(settings: &Redis) -> bool {
    let address = |url: &Secret| {
        let rest = url.reveal().trim_start_matches("redis://").to_owned();
        rest.split('/').next().unwrap_or_default().to_owned()
    };
    settings.urls.iter().any(|url| std::net::TcpStream::connect(address(url)).is_ok())
}
