//! What serves: the proxy on its listeners, the admin port beside it, and how both come to an end.

use super::counters::Counters;
use super::signals::Signals;
use super::sockets::Sockets;
use crate::admin::{self, Admin};
use crate::config::MAX_RETRIES;
use crate::config::model::Config;
use crate::metrics::Metrics;
use crate::proxy::access_log::AccessLog;
use crate::proxy::connection::{Connections, Listener, Stop, Terms, http2_options};
use crate::proxy::parking::Parking;
use crate::proxy::snapshot::{Live, Snapshot};
use crate::proxy::{Gate, serve_options};
use crate::reload::LastReport;
use crate::request::client::contains;
use pingora::apps::HttpServerApp;
use pingora::proxy::{HttpProxy, http_proxy};
use pingora::server::configuration::ServerConf;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Idle connections kept to upstream servers, all together. More than requests that are ever in flight at once: when the
/// pool is the smaller of the two, every other request makes a connection and throws one away. Idle ones are closed after
/// a minute, so a large bound costs nothing; descriptors run out long before it.
const UPSTREAM_POOL_CONNECTIONS: usize = 65_536;

/// How long a drain may take to notice that nothing is open any more.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// How long a process that was replaced leaves open what waits for a request: a client that is about to send its next one is
/// answered, not cut off.
const WAITING_GRACE: Duration = Duration::from_secs(3);

/// What is served, and how it ends.
pub(super) struct Service {
    proxy: Arc<HttpProxy<Gate>>,
    connections: Connections,
    admin: Arc<Admin>,
    live: Arc<Live>,
    access_log: Arc<AccessLog>,
    /// Of the sockets for clients.
    stop: Stop,
    /// Of the admin port, which goes on during a drain: probes must be answered. Nobody waits for its connections.
    admin_stop: Stop,
    /// Answers the process before, which may have requests to decide.
    pub calls_before: Option<JoinHandle<()>>,
}

impl Service {
    pub fn new(
        config: &Config,
        threads: usize,
        live: Arc<Live>,
        counters: Counters,
        last_reload: LastReport,
        metrics: Arc<Metrics>,
        access_log: Arc<AccessLog>,
    ) -> Self {
        let store = counters.store;
        let gate = Gate {
            decision_duration: metrics.decision_duration(store.name()),
            live: live.clone(),
            store: store.clone(),
            clock: counters.clock,
            metrics: metrics.clone(),
            access_log: access_log.clone(),
            parking: Arc::new(Parking::default()),
        };
        let mut proxy = http_proxy(&Arc::new(pingora_conf(threads)), gate);
        proxy.server_options = Some(serve_options(&config.server));
        proxy.h2_options = Some(http2_options(&config.server));
        let stop = Stop::default();
        let draining = stop.ends().of_reuse().clone();
        let admin = Arc::new(Admin::new(admin::Parts {
            metrics,
            live: live.clone(),
            shutting_down: draining,
            health: counters.health,
            store,
            clock: counters.clock,
            last_reload,
        }));
        Self {
            proxy: Arc::new(proxy),
            connections: Connections::default(),
            admin,
            live,
            access_log,
            stop,
            admin_stop: Stop::default(),
            calls_before: None,
        }
    }

    /// Accepts connections from now on.
    pub fn accept(&self, sockets: Sockets) {
        for client in sockets.clients {
            let live = self.live.clone();
            let terms = move |peer| terms(&live.load(), peer);
            let connections = self.connections.clone();
            let listener = Listener { socket: client.socket, tls: client.tls, connections, terms };
            tokio::spawn(listener.accept(self.proxy.clone(), self.stop.ends()));
        }
        let listener = Listener::private(sockets.admin.socket);
        tokio::spawn(listener.accept(self.admin.clone(), self.admin_stop.ends()));
    }

    /// Lets open requests finish. Readiness ends before anything else does.
    pub async fn drain(&mut self, signals: &mut Signals) {
        self.stop.reuse();
        self.admin_stop.reuse();
        self.stop.accepting();
        self.finish(signals, Duration::ZERO).await;
    }

    /// As [`Self::drain`], but another process accepts on the same sockets: nobody finds the door closed.
    pub async fn make_way(&mut self, signals: &mut Signals) {
        for stop in [&self.stop, &self.admin_stop] {
            stop.reuse();
            stop.accepting();
        }
        self.finish(signals, WAITING_GRACE).await;
    }

    async fn finish(&mut self, signals: &mut Signals, grace: Duration) {
        self.proxy.http_cleanup().await;
        let limit = self.live.load().server.drain.to_duration();
        tracing::info!(open = self.connections.open(), limit_ms = limit.as_millis(), "draining");
        let before = self.calls_before.take();
        let done = async {
            // Until it is over, or there is nobody left to wait for.
            let _ = tokio::time::timeout(grace, closed(&self.connections)).await;
            self.stop.waiting();
            closed(&self.connections).await;
            if let Some(before) = before {
                // It ends when the process before does; a panic in it ends it too.
                let _ = before.await;
            }
        };
        tokio::select! {
            () = done => {}
            () = tokio::time::sleep(limit) => {
                tracing::warn!(open = self.connections.open(), "the drain time is over, closing what is left");
            }
            () = signals.second(&self.access_log) => tracing::warn!("ending at once"),
        }
    }
}

/// Until no connection of a client is open.
async fn closed(connections: &Connections) {
    while connections.open() > 0 {
        tokio::time::sleep(DRAIN_POLL).await;
    }
}

/// What a connection from this peer may do. Behind a trusted proxy stand many clients, so it has no cap.
fn terms(snapshot: &Snapshot, peer: IpAddr) -> Terms {
    let rules = &snapshot.policy.address_rules;
    let is_trusted = contains(&rules.trusted, peer.to_canonical());
    let cap = if is_trusted { 0 } else { snapshot.server.max_connections_per_ip };
    Terms::new(&snapshot.server).capped(rules.group(peer.to_canonical()), cap)
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
