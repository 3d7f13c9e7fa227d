//! The process: listeners, connections, background work, signals, drain.
//!
//! The accept loop is ours and hands each connection to Pingora's HTTP code, because Pingora's own server dies of a
//! SIGHUP, sleeps out its whole grace time when idle and knows no deadline for a request's header. Here a reload is a
//! message, a drain ends as soon as nothing is open, and a connection that never finishes a header is closed.

use crate::admin::{self, Admin, Health};
use crate::config::MAX_RETRIES;
use crate::config::model::{Config, OnStoreError, Redis, Server};
use crate::metrics::Metrics;
use crate::proxy::access_log::AccessLog;
use crate::proxy::connection::{self, Certificates, Connections, Listener, Terms};
use crate::proxy::parking::Parking;
use crate::proxy::snapshot::{Live, Snapshot};
use crate::proxy::upstream::watch::Watch;
use crate::proxy::{Gate, serve_options};
use crate::reload::Reloader;
use crate::request::client::contains;
use crate::store::Store;
use crate::store::deny_cache::DenyCache;
use crate::store::fallback::Guarded;
use crate::store::memory::{MemoryStore, SWEEP_BUDGET};
use crate::store::redis::RedisStore;
use crate::time::{Clock, Millis, Stopwatch};
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Connections that the kernel may hold before they are accepted.
const LISTEN_BACKLOG: u32 = 4096;

/// Idle connections kept to upstream servers, all together. More than requests that are ever in flight at once: when the
/// pool is the smaller of the two, every other request makes a connection and throws one away. Idle ones are closed after
/// a minute, so a large bound costs nothing; descriptors run out long before it.
const UPSTREAM_POOL_CONNECTIONS: usize = 65_536;

/// How often the memory store is swept: what [`SWEEP_BUDGET`] is made for.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How long a drain may take to notice that nothing is open any more.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// How long a start waits for the shared store.
const FIRST_CONTACT: Duration = Duration::from_secs(2);

/// What a running gateway is made of.
pub struct Parts {
    pub config: Config,
    pub snapshot: Snapshot,
    pub reloader: Reloader,
    /// Set by a SIGHUP that came before the signal loop ran.
    pub early_reload: Arc<AtomicBool>,
    pub metrics: Arc<Metrics>,
    pub access_log: Arc<AccessLog>,
}

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Let open requests finish.
    Drain,
    /// At once.
    Now,
}

/// Serves until a signal ends it. An error is one that kept it from serving: a port in use, for instance.
pub fn run(parts: Parts) -> io::Result<()> {
    let threads = match parts.config.server.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let result = runtime.block_on(serve(parts, threads));
    // Connections that outlived the drain are dropped with the runtime.
    runtime.shutdown_background();
    result
}

async fn serve(parts: Parts, threads: usize) -> io::Result<()> {
    let mut signals = Signals::register()?;
    let Parts { config, snapshot, reloader, early_reload, metrics, access_log } = parts;
    let server = config.server.clone();
    let clock = Clock::start();
    metrics.config_loaded(snapshot.generation, Clock::wall().seconds());
    let live = Arc::new(Live::from_pointee(snapshot));
    let memory = Arc::new(MemoryStore::new(usize::try_from(config.store.max_entries).unwrap_or(usize::MAX)));
    let shared = match &config.store.redis {
        Some(redis) => Some(share(redis, &memory, &metrics).await?),
        None => None,
    };
    let store: Arc<dyn Store> = match &shared {
        Some(guarded) => Arc::new(DenyCache::new(guarded.clone(), metrics.clone())),
        None => memory.clone(),
    };
    let (shutdown, shutting_down) = watch::channel(false);

    let listeners = listeners(&server, &live)?;
    let admin_listener = bind(config.admin.listen)?;

    let watch = Watch::new(clock, metrics.clone());
    watch.follow(&live.load());
    let gate = Gate {
        live: live.clone(),
        store: store.clone(),
        clock,
        metrics: metrics.clone(),
        access_log: access_log.clone(),
        parking: Arc::new(Parking::default()),
    };
    let mut proxy = http_proxy(&Arc::new(pingora_conf(threads)), gate);
    proxy.server_options = Some(serve_options(&server));
    proxy.h2_options = Some(connection::http2_options(&server));
    let proxy = Arc::new(proxy);
    let connections = Connections::default();
    for (socket, tls) in listeners {
        let live = live.clone();
        let terms = move |peer| terms(&live.load(), peer);
        let listener = Listener { socket, tls, connections: connections.clone(), terms };
        tokio::spawn(listener.accept(proxy.clone(), shutting_down.clone(), shutting_down.clone()));
    }
    let health = store_health(&config, shared);
    let admin = Arc::new(Admin::new(admin::Parts {
        metrics: metrics.clone(),
        live: live.clone(),
        shutting_down: shutting_down.clone(),
        health,
        store: store.clone(),
        clock,
        last_reload: reloader.report(),
    }));
    let listener = Listener::private(admin_listener);
    // Probes must be answered while draining.
    let (_open, closed) = watch::channel(false);
    tokio::spawn(listener.accept(admin, closed, shutting_down.clone()));
    tokio::spawn(sweep(memory, clock, metrics.clone()));

    tracing::info!(listen = ?server.listen, admin = %config.admin.listen, "ready");
    let reloads = Reloads { reloader, live: live.clone(), metrics, watch };
    if early_reload.swap(false, Ordering::AcqRel) {
        reloads.reload().await;
    }
    if signals.ending(&reloads, &access_log).await == Ending::Drain {
        shutdown.send_replace(true);
        pingora::apps::HttpServerApp::http_cleanup(&*proxy).await;
        tokio::select! {
            () = drained(&connections, live.load().server.drain) => {}
            _ = signals.second() => tracing::warn!("ending at once"),
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// Opens the shared store, with the memory store beside it for when it fails.
async fn share(
    redis: &Redis,
    memory: &Arc<MemoryStore>,
    metrics: &Arc<Metrics>,
) -> io::Result<Arc<Guarded<RedisStore>>> {
    let store = RedisStore::open(redis).map_err(io::Error::other)?;
    store.first_contact(FIRST_CONTACT).await;
    let guarded = Guarded::new(store, memory.clone(), redis.timeout, metrics.clone());
    tokio::spawn(guarded.clone().watch());
    Ok(guarded)
}

/// How the store is, for the readiness probe: with `on_error = "closed"` a gateway that has lost it is not ready.
fn store_health(config: &Config, shared: Option<Arc<Guarded<RedisStore>>>) -> Box<dyn Fn() -> Health + Send + Sync> {
    let closed = config.store.redis.as_ref().is_some_and(|redis| redis.on_error == OnStoreError::Closed);
    Box::new(move || match (shared.as_ref().is_some_and(|shared| shared.is_degraded()), closed) {
        (false, _) => Health::Good,
        (true, false) => Health::Degraded,
        (true, true) => Health::Bad,
    })
}

/// Every socket for clients, with what does its handshakes. Listeners of one address are one, with several certificates.
fn listeners(server: &Server, live: &Arc<Live>) -> io::Result<Vec<(TcpListener, Option<TlsAcceptor>)>> {
    let plain = server.listen.iter().map(|address| Ok((bind(*address)?, None)));
    let addresses: BTreeSet<SocketAddr> = server.tls.iter().map(|listener| listener.listen).collect();
    let secure = addresses.into_iter().map(|address| {
        let live = live.clone();
        let current = move |choose: &dyn Fn(&Certificates) -> _| live.load().certificates.get(&address).map(choose);
        let acceptor = connection::acceptor(Box::new(current)).map_err(io::Error::other)?;
        Ok((bind(address)?, Some(acceptor)))
    });
    plain.chain(secure).collect()
}

/// What a connection from this peer may do. Behind a trusted proxy stand many clients, so it has no cap.
fn terms(snapshot: &Snapshot, peer: IpAddr) -> Terms {
    let rules = &snapshot.policy.address_rules;
    let is_trusted = contains(&rules.trusted, peer.to_canonical());
    let cap = if is_trusted { 0 } else { snapshot.server.max_connections_per_ip };
    Terms::new(&snapshot.server).capped(rules.group(peer.to_canonical()), cap)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() };
    let socket = socket.map_err(named)?;
    socket.set_reuseaddr(true).map_err(named)?;
    socket.bind(address).map_err(named)?;
    socket.listen(LISTEN_BACKLOG).map_err(named)
}

fn pingora_conf(threads: usize) -> ServerConf {
    ServerConf {
        threads,
        // Pingora multiplies it by the threads, for one pool that they share.
        upstream_keepalive_pool_size: UPSTREAM_POOL_CONNECTIONS / threads.max(1),
        max_retries: MAX_RETRIES as usize + 1,
        ..ServerConf::default()
    }
}

async fn drained(connections: &Connections, limit: Millis) {
    let started = Stopwatch::start();
    let open = connections.open();
    tracing::info!(open, limit_ms = limit.0, "draining");
    while connections.open() > 0 && started.elapsed() < limit.to_duration() {
        tokio::time::sleep(DRAIN_POLL).await;
    }
    if connections.open() > 0 {
        tracing::warn!(open = connections.open(), "the drain time is over, closing what is left");
    }
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

struct Reloads {
    reloader: Reloader,
    live: Arc<Live>,
    metrics: Arc<Metrics>,
    watch: Watch,
}

impl Reloads {
    async fn reload(&self) {
        let succeeded = self.reloader.reload(&self.live).await;
        self.metrics.reload_finished(succeeded);
        if succeeded {
            self.watch.follow(&self.live.load());
            self.metrics.config_loaded(self.live.load().generation, Clock::wall().seconds());
        }
    }
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    user1: Signal,
}

impl Signals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Serves HUP and USR1 until one of the others comes.
    async fn ending(&mut self, reloads: &Reloads, access_log: &AccessLog) -> Ending {
        loop {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => return Ending::Now,
                _ = self.terminate.recv() => return Ending::Drain,
                _ = self.quit.recv() => return Ending::Drain,
                _ = self.user1.recv() => access_log.reopen(),
                _ = self.hangup.recv() => {
                    tokio::select! {
                        biased;
                        _ = self.interrupt.recv() => return Ending::Now,
                        _ = self.terminate.recv() => return Ending::Drain,
                        _ = self.quit.recv() => return Ending::Drain,
                        () = reloads.reload() => {}
                    }
                }
            }
        }
    }

    /// A signal that ends a drain.
    async fn second(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Now,
            _ = self.terminate.recv() => Ending::Now,
        }
    }
}
