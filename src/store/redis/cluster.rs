//! A Cluster: which master has which slot, followed while slots move and masters change.
//!
//! The map is asked for in the background: when a server says MOVED, when a call fails, and every few seconds. A request never
//! waits for it; it follows at most [`MAX_REDIRECTS`] redirections by itself. Each master has a connection and a breaker of its own, so
//! that a dead one costs only the counters of its slots.

use super::address::Target;
use super::connection::{Server, brief};
use super::node::{CallError, Node};
use super::script::Script;
use super::slot::{self, SLOTS};
use crate::store::StoreError;
use crate::store::breaker::Breaker;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Redirections that one call follows.
const MAX_REDIRECTS: usize = 4;

/// How long to wait before asking again for keys that are on their way to another node.
const TRYAGAIN_PAUSE: Duration = Duration::from_millis(5);

/// How often the map is asked for without a reason, and how often at most.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
const REFRESH_PAUSE: Duration = Duration::from_millis(200);

/// How long one node may take to answer with the map.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// How many nodes are asked for the map at once.
const ASKED_AT_ONCE: usize = 4;

/// The most masters that a Cluster may have here.
const MAX_NODES: usize = 1000;

/// A Cluster's masters.
pub struct Cluster {
    seeds: Vec<Server>,
    timeout: Duration,
    map: ArcSwap<Map>,
    /// By address; also those that a redirection named before the map did.
    nodes: Mutex<HashMap<String, Known>>,
    stale: Notify,
    /// Told of each connection.
    connected: Arc<Notify>,
    /// For slots that no master is known to have.
    nobody: Arc<Breaker>,
}

/// A node, and whether a redirection named it since the last map: one that slots are moved to has none before the first came.
struct Known {
    node: Arc<Node>,
    named: bool,
}

/// Where a call goes.
struct Route {
    slot: u16,
    node: Arc<Node>,
    /// Whether the node has to be told that it was asked on another's word.
    asking: bool,
    redirects: usize,
    tried_again: bool,
}

impl Route {
    fn turn(&mut self, node: Arc<Node>, asking: bool) -> Result<(), StoreError> {
        if self.redirects == MAX_REDIRECTS {
            return Err(StoreError::Unavailable("the slot was redirected too often".to_owned()));
        }
        (self.node, self.asking, self.redirects) = (node, asking, self.redirects + 1);
        Ok(())
    }
}

/// Who has which slot.
#[derive(Default)]
struct Map {
    /// Indices into `nodes`, by slot; empty before the first answer.
    owners: Vec<Option<u16>>,
    nodes: Vec<Arc<Node>>,
}

impl Map {
    fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        let owner = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.nodes.get(usize::from(owner))
    }

    /// A key in a slot of that node. One slot of all is found in this many attempts but for once in ten million.
    fn probe_key(&self, index: usize, prefix: &str) -> Option<String> {
        let index = u16::try_from(index).ok();
        let owns = |slot: u16| index.is_some() && self.owners.get(usize::from(slot)).copied().flatten() == index;
        let keys = (0..16 * u32::from(SLOTS)).map(|number| format!("{prefix}:{{probe-{number}}}"));
        keys.into_iter().find(|key| owns(slot::of(key.as_bytes())))
    }
}

/// A range of slots and the address of its master.
struct Range {
    first: u16,
    last: u16,
    address: String,
}

impl Cluster {
    /// A cluster whose map is kept by a task of its own.
    pub fn start(seeds: Vec<Server>, timeout: Duration, connected: &Arc<Notify>) -> Arc<Self> {
        let cluster = Arc::new(Self {
            seeds,
            timeout,
            map: ArcSwap::default(),
            nodes: Mutex::default(),
            stale: Notify::new(),
            connected: connected.clone(),
            nobody: Arc::default(),
        });
        tokio::spawn(cluster.clone().keep_map());
        cluster
    }

    pub fn breaker(&self, slot: u16) -> Arc<Breaker> {
        self.map.load().node(slot).map_or_else(|| self.nobody.clone(), |node| node.breaker.clone())
    }

    /// Whether the map is known and every master connected.
    pub fn is_connected(&self) -> bool {
        let map = self.map.load();
        !map.nodes.is_empty() && map.nodes.iter().all(|node| node.is_connected())
    }

    pub fn is_degraded(&self) -> bool {
        self.nobody.is_open() || self.map.load().nodes.iter().any(|node| node.breaker.is_open())
    }

    /// Runs a script on the slot's master, wherever the servers say that is.
    pub async fn run(
        &self,
        slot: u16,
        script: &Script,
        keys: &[String],
        argument: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let mut route = self.route(slot)?;
        loop {
            match route.node.run(script, keys, argument, route.asking).await {
                Ok(reply) => return Ok(reply),
                Err(error) => self.follow(&mut route, error, keys.len() > 1).await?,
            }
        }
    }

    /// Where a call for a slot begins.
    fn route(&self, slot: u16) -> Result<Route, StoreError> {
        let Some(node) = self.map.load().node(slot).cloned() else {
            self.stale.notify_one();
            return Err(StoreError::Unavailable("no master is known for the slot".to_owned()));
        };
        Ok(Route { slot, node, asking: false, redirects: 0, tried_again: false })
    }

    /// Turns a route to where the call has to be sent next; an error when that is nowhere.
    async fn follow(&self, route: &mut Route, error: CallError, several_keys: bool) -> Result<(), StoreError> {
        const MOVED: ErrorKind = ErrorKind::Server(ServerErrorKind::Moved);
        const ASK: ErrorKind = ErrorKind::Server(ServerErrorKind::Ask);
        const TRY_AGAIN: ErrorKind = ErrorKind::Server(ServerErrorKind::TryAgain);
        let CallError::Redis(answer) = &error else {
            self.stale.notify_one();
            // A new map may have closed the node since the route began.
            return match self.map.load().node(route.slot) {
                Some(node) if !Arc::ptr_eq(node, &route.node) => route.turn(node.clone(), false),
                _ => Err(error.into_store_error()),
            };
        };
        match (answer.kind(), answer.redirect_node()) {
            (MOVED, Some((address, _))) => {
                self.stale.notify_one();
                route.turn(self.named(address), false)
            }
            (ASK, Some((address, _))) => route.turn(self.named(address), true),
            // One key here and one there, or one that exists nowhere yet: that may last until the whole slot has moved.
            (TRY_AGAIN, _) if several_keys && route.tried_again => Err(StoreError::Apart),
            (TRY_AGAIN, _) => {
                route.tried_again = true;
                tokio::time::sleep(TRYAGAIN_PAUSE).await;
                Ok(())
            }
            _ => {
                self.stale.notify_one();
                Err(error.into_store_error())
            }
        }
    }

    /// Tries a real write on every master whose breaker is open, all at once; true when any closed.
    pub async fn probe(&self, prefix: &str) -> bool {
        let map = self.map.load_full();
        let complete = !map.owners.is_empty() && map.owners.iter().all(Option::is_some);
        let known = self.nobody.is_open() && complete && self.nobody.probe_succeeded();
        let given_up = map.nodes.iter().enumerate().filter(|(_, node)| node.breaker.is_open());
        let probes = given_up.filter_map(|(index, node)| Some((node, map.probe_key(index, prefix)?)));
        let probes = probes.map(|(node, key)| async move { node.probe(&key).await });
        let closed = futures_util::future::join_all(probes).await;
        if self.is_degraded() {
            self.stale.notify_one();
        }
        known || closed.contains(&true)
    }

    fn node_at(&self, address: &str) -> Arc<Node> {
        self.known(address, false)
    }

    /// The node that a redirection named.
    fn named(&self, address: &str) -> Arc<Node> {
        self.known(address, true)
    }

    fn known(&self, address: &str, named: bool) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let target = || Target::Single(self.server(address));
        let start = || Known { node: Node::start(target(), self.timeout, &self.connected), named };
        let known = nodes.entry(address.to_owned()).or_insert_with(start);
        known.named |= named;
        known.node.clone()
    }

    /// A server of this cluster by its address, spoken to as the seeds are.
    fn server(&self, address: &str) -> Server {
        let seed = &self.seeds[0];
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
        let host = match host.trim_start_matches('[').trim_end_matches(']') {
            // A node that does not know its own name means the one that was asked.
            "" => seed.host(),
            host => host,
        };
        seed.at(host, port.parse().unwrap_or(6379))
    }

    async fn keep_map(self: Arc<Self>) {
        let mut told = false;
        loop {
            match self.ask_anyone().await {
                Ok(ranges) => {
                    told = false;
                    self.use_map(&ranges);
                }
                Err(error) => tell(&error, std::mem::replace(&mut told, true)),
            }
            tokio::time::sleep(REFRESH_PAUSE).await;
            let _ = tokio::time::timeout(REFRESH_INTERVAL, self.stale.notified()).await;
        }
    }

    /// The map as the first node that answers has it, a few being asked at once: those that are connected first, the
    /// configured seeds last. An error is the one of the last that was asked.
    async fn ask_anyone(&self) -> Result<Vec<Range>, RedisError> {
        let mut known: Vec<(bool, String)> = {
            let nodes = self.nodes.lock();
            nodes.iter().take(MAX_NODES).map(|(address, known)| (!known.node.is_connected(), address.clone())).collect()
        };
        known.sort();
        let known = known.iter().map(|(_, address)| self.server(address));
        let servers: Vec<Server> = known.chain(self.seeds.iter().cloned()).collect();
        let mut last = no_slots();
        for some in servers.chunks(ASKED_AT_ONCE) {
            let answers = some.iter().map(|server| Box::pin(ask(server)));
            match futures_util::future::select_ok(answers).await {
                Ok((ranges, _)) => return Ok(ranges),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn use_map(&self, ranges: &[Range]) {
        let mut map = Map { owners: vec![None; usize::from(SLOTS)], nodes: Vec::new() };
        let mut addresses: Vec<&str> = Vec::new();
        for range in ranges {
            let index = addresses.iter().position(|known| *known == range.address).unwrap_or_else(|| {
                addresses.push(&range.address);
                map.nodes.push(self.node_at(&range.address));
                addresses.len() - 1
            });
            let owner = u16::try_from(index).ok();
            for slot in range.first..=range.last.min(SLOTS - 1) {
                map.owners[usize::from(slot)] = owner;
            }
        }
        self.map.store(Arc::new(map));
        // Masters that are gone: their connections end.
        self.nodes.lock().retain(|address, known| {
            let stays = addresses.contains(&address.as_str()) || std::mem::take(&mut known.named);
            if !stays {
                known.node.close();
            }
            stays
        });
    }
}

/// Once an outage where everybody sees it: without a map there is no node that would say that the password is wrong.
fn tell(error: &RedisError, again: bool) {
    let error = brief(error);
    if again {
        tracing::debug!(error, "no node of the cluster tells who has which slot");
    } else {
        tracing::warn!(error, "no node of the cluster tells who has which slot");
    }
}

async fn ask(server: &Server) -> Result<Vec<Range>, RedisError> {
    let connection = server.connect(REFRESH_TIMEOUT, REFRESH_TIMEOUT).await?;
    let value: Value = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection.channel()).await?;
    let Value::Array(entries) = value else { return Err(no_slots()) };
    let ranges: Vec<Range> = entries.iter().filter_map(|entry| range(entry, server)).collect();
    if ranges.is_empty() { Err(no_slots()) } else { Ok(ranges) }
}

fn no_slots() -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, "the node knows of no slots"))
}

/// One entry of `CLUSTER SLOTS`: first slot, last slot, master (host, port, …), replicas.
fn range(entry: &Value, asked: &Server) -> Option<Range> {
    let Value::Array(fields) = entry else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = fields.as_slice() else { return None };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8_lossy(host).into_owned(),
        _ => asked.host().to_owned(),
    };
    Some(Range {
        first: u16::try_from(*first).ok()?,
        last: u16::try_from(*last).ok()?,
        address: format!("{host}:{port}"),
    })
}
