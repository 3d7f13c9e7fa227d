//! The stores that have to agree, each as the gateway has it, with the servers they need.

use crate::support::free_port;
use crate::support::redis::{RedisCluster, RedisServer, Sentinels};
use sluicegate::config::load_text;
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

/// For the first connection, likewise.
const CONTACT: Duration = Duration::from_secs(20);

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
        let (store, servers): (Arc<dyn Store>, Box<dyn Any>) = match kind {
            Kind::Memory => (Arc::new(MemoryStore::new(MAX_ENTRIES)), Box::new(())),
            Kind::Single => {
                let server = RedisServer::start();
                (shared(&runtime, &single(server.port), CONTACT), Box::new(server))
            }
            Kind::Sentinel => {
                let set = Sentinels::start();
                (shared(&runtime, &set.toml(), CONTACT), Box::new(set))
            }
            Kind::Cluster => {
                let cluster = RedisCluster::start(3, 0);
                (shared(&runtime, &cluster.toml(), CONTACT), Box::new(cluster))
            }
            Kind::StandIn => (shared(&runtime, &single(free_port()), Duration::ZERO), Box::new(())),
        };
        Self { kind, store, runtime, _servers: servers }
    }

    /// A store before servers that stay the test's, by the lines of `[store.redis]` that name them.
    pub fn before(kind: Kind, lines: &str) -> Self {
        let runtime = runtime();
        let store = shared(&runtime, lines, CONTACT);
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

/// `[store.redis]` lines for one server.
pub fn single(port: u16) -> String {
    format!("urls = [\"redis://127.0.0.1:{port}/0\"]\n")
}

/// The shared store with all that the gateway puts before it.
fn shared(runtime: &Runtime, lines: &str, patience: Duration) -> Arc<dyn Store> {
    let text = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"{}ms\"\n{lines}", TIMEOUT.0);
    let loaded = load_text("test.toml", &text, None, &|_| None);
    let settings = loaded.config.expect("valid TOML").store.redis.expect("it is the backend");
    let metrics = Arc::new(Metrics::new());
    let _entered = runtime.enter();
    let store = RedisStore::open_at_given_time(&settings).expect("the URLs can be read");
    runtime.block_on(store.first_contact(patience));
    let local = Arc::new(MemoryStore::new(MAX_ENTRIES));
    Arc::new(DenyCache::new(Guarded::new(store, local, TIMEOUT, metrics.clone()), metrics))
}
