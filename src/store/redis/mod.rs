//! Counters in Redis, shared by any number of gateways: one server, a master behind sentinels, or a Cluster.
//!
//! One script call decides all charges of one request that share a slot; Redis runs it alone, which is what makes it atomic
//! between gateways, and its clock is the only one that matters. Limits of one caller that are split alike share a key. This module
//! puts charges into calls and answers back; connections are [`link`]'s, the arithmetic is in `lua/`. It sets no deadline:
//! [`super::fallback`] does.

mod address;
mod cluster;
mod connection;
mod key;
mod link;
mod node;
pub mod script;
mod slot;
mod tls;

use super::StoreError;
use super::breaker::Breaker;
use super::shared::{Call, Shard, Shared};
use crate::charge::{Charge, Correction, Meter, Outcome, Part};
use crate::config::model::{Redis, RedisMode, Secret};
use crate::time::Timestamp;
use address::Target;
use cluster::Cluster;
use connection::Server;
use node::Node;
use redis::RedisConnectionInfo;
use script::{Place, Purpose, Script, Shape};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How often a start looks whether the servers are connected.
const CONTACT_POLL: Duration = Duration::from_millis(10);

/// The key under which a counter stands, for people.
pub fn counter_key(prefix: &str, meter: &Meter, parts: &[Part<'_>]) -> String {
    let mut text = String::with_capacity(64);
    key::write(&mut text, prefix, parts, key::tail(&meter.name, script::is_log(meter.algorithm), parts));
    text
}

/// The shared store.
pub struct RedisStore {
    servers: Servers,
    /// Told by each connection that it is there.
    connected: Arc<Notify>,
    prefix: String,
    /// Whether decisions are made at the instant that the caller says, and not at the time of Redis.
    at_given_time: bool,
    /// Whether a value that had to be replaced was told in the log already.
    told_replaced: AtomicBool,
}

enum Servers {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

/// The keys of a call and where each counter is among them.
struct Layout {
    keys: Vec<String>,
    /// How many of the keys are strings.
    groups: usize,
    places: Vec<Place>,
}

impl RedisStore {
    /// A store for that configuration. It connects in the background, so a Redis that is absent does not keep the gateway from
    /// starting. An error is a URL that cannot be read, or TLS that cannot be set up; it quotes no secret.
    pub fn open(settings: &Redis) -> Result<Arc<Self>, String> {
        Self::open_by_clock(settings, false)
    }

    /// For tests: a store that decides at the instants it is given, so that no test has to wait for a window to end.
    pub fn open_at_given_time(settings: &Redis) -> Result<Arc<Self>, String> {
        Self::open_by_clock(settings, true)
    }

    fn open_by_clock(settings: &Redis, at_given_time: bool) -> Result<Arc<Self>, String> {
        let wants_tls = settings.data_tls || settings.urls.iter().any(|url| url.reveal().starts_with("rediss:"));
        let tls = wants_tls.then(|| tls::connector(&settings.tls)).transpose()?;
        let read = |url: &Secret| {
            Server::of_url(url.reveal(), tls.as_ref())
                .ok_or_else(|| "[store.redis].urls holds a URL that cannot be read".to_owned())
        };
        let urls: Vec<Server> = settings.urls.iter().map(read).collect::<Result<_, _>>()?;
        let timeout = settings.timeout.to_duration();
        let with_credentials = |server: Server| server.with_login(|login| credentials(login, settings));
        let connected = Arc::new(Notify::new());
        let servers = match settings.mode {
            RedisMode::Single => {
                let first = urls.into_iter().next().ok_or("no URL is configured")?;
                Servers::One(Node::start(Target::Single(with_credentials(first)), timeout, &connected))
            }
            RedisMode::Sentinel => {
                let data = with_credentials(Server::nowhere(
                    RedisConnectionInfo::default(),
                    tls.filter(|_| settings.data_tls),
                ));
                let target = Target::Sentinel { sentinels: urls, master: settings.master.clone(), data };
                Servers::One(Node::start(target, timeout, &connected))
            }
            RedisMode::Cluster => {
                Servers::Cluster(Cluster::start(urls.into_iter().map(with_credentials).collect(), timeout, &connected))
            }
        };
        let told_replaced = AtomicBool::new(false);
        Ok(Arc::new(Self { servers, connected, prefix: settings.prefix.clone(), at_given_time, told_replaced }))
    }

    /// Waits until the servers are connected, for `patience` at most: a gateway that starts beside a healthy Redis decides its
    /// first request there.
    pub async fn first_contact(&self, patience: Duration) {
        let connected = || match &self.servers {
            Servers::One(node) => node.is_connected(),
            Servers::Cluster(cluster) => cluster.is_connected(),
        };
        let waiting = async {
            while !connected() {
                tokio::time::sleep(CONTACT_POLL).await;
            }
        };
        if tokio::time::timeout(patience, waiting).await.is_err() {
            tracing::warn!("the store does not answer yet: going on without it");
        }
    }

    fn layout<'a>(&self, counters: impl Iterator<Item = (&'a Meter, &'a [Part<'a>])> + Clone) -> Layout {
        let mut layout = Layout { keys: Vec::new(), groups: 0, places: Vec::new() };
        let key = |meter: &Meter, parts: &[Part<'_>]| {
            (script::is_log(meter.algorithm), counter_key(&self.prefix, meter, parts))
        };
        let mut logs = Vec::new();
        for (meter, parts) in counters.clone() {
            let (is_log, key) = key(meter, parts);
            let keys = if is_log { &mut logs } else { &mut layout.keys };
            let index = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            layout.places.push(Place { key: index, record: script::record_id(&meter.identity) });
        }
        layout.groups = layout.keys.len();
        for ((meter, _), place) in counters.zip(&mut layout.places) {
            if script::is_log(meter.algorithm) {
                place.key += layout.groups;
            }
        }
        layout.keys.extend(logs);
        layout
    }

    async fn run(
        &self,
        shard: Shard,
        script: &'static Script,
        keys: &[String],
        argument: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        match &self.servers {
            Servers::One(node) => {
                node.run(script, keys, argument, false).await.map_err(node::CallError::into_store_error)
            }
            Servers::Cluster(cluster) => cluster.run(shard, script, keys, argument).await,
        }
    }

    fn tell_replaced(&self, replaced: u64) {
        if replaced > 0 && !self.told_replaced.swap(true, Ordering::Relaxed) {
            tracing::warn!(replaced, "a counter in Redis held a value of another type or format and was begun anew");
        }
    }
}

/// The user and password of the data servers, where the URL does not say them.
fn credentials(mut own: RedisConnectionInfo, settings: &Redis) -> RedisConnectionInfo {
    if own.username().is_none()
        && let Some(username) = &settings.username
    {
        own = own.set_username(username);
    }
    if own.password().is_none()
        && let Some(password) = &settings.password
    {
        own = own.set_password(password.reveal());
    }
    own
}

impl Shared for RedisStore {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn shard(&self, charge: &Charge<'_>) -> Shard {
        match &self.servers {
            Servers::One(_) => 0,
            Servers::Cluster(_) => {
                let mut key = String::with_capacity(64);
                key::write(&mut key, &self.prefix, &charge.parts, "");
                slot::of(key.as_bytes())
            }
        }
    }

    fn share_a_key(&self, one: &Charge<'_>, other: &Charge<'_>) -> bool {
        let both = [one.reborrow(), other.reborrow()];
        self.layout(both.iter().map(|charge| (charge.meter, charge.parts.as_slice()))).keys.len() == 1
    }

    fn breaker(&self, shard: Shard) -> Arc<Breaker> {
        match &self.servers {
            Servers::One(node) => node.breaker.clone(),
            Servers::Cluster(cluster) => cluster.breaker(shard),
        }
    }

    fn acquire<'a>(&'a self, shard: Shard, now: Timestamp, charges: &'a [Charge<'_>]) -> Call<'a, Outcome> {
        let layout = self.layout(charges.iter().map(|charge| (charge.meter, charge.parts.as_slice())));
        let clock = self.at_given_time.then_some(now);
        // Outside the future, and so outside its deadline: the first of a shape has its script joined.
        let (script, argument) = script::acquire(clock, layout.groups, charges, &layout.places);
        Box::pin(async move {
            let reply = self.run(shard, script, &layout.keys, &argument).await?;
            let acquired =
                script::read_acquired(&reply, charges.len()).map_err(|_| StoreError::Nonsense("to a decision"))?;
            self.tell_replaced(acquired.replaced);
            Ok(acquired.outcome)
        })
    }

    fn settle<'a>(&'a self, shard: Shard, now: Timestamp, corrections: &'a [Correction<'_>]) -> Call<'a, ()> {
        let script = Script::of(Purpose::Settle, Shape::of_corrections(corrections));
        let clock = self.at_given_time.then_some(now);
        Box::pin(async move {
            let layout =
                self.layout(corrections.iter().map(|correction| (correction.meter, correction.parts.as_slice())));
            let mut argument = Vec::new();
            script::write_corrections(&mut argument, clock, layout.groups, corrections, &layout.places);
            let reply = self.run(shard, script, &layout.keys, &argument).await?;
            let settled = script::read_settled(&reply).map_err(|_| StoreError::Nonsense("to a settlement"))?;
            self.tell_replaced(settled.replaced);
            Ok(())
        })
    }

    fn forget<'a>(&'a self, shard: Shard, charges: &'a [Charge<'_>]) -> Call<'a, Vec<bool>> {
        let script = Script::of(Purpose::Forget, Shape::default());
        Box::pin(async move {
            let layout = self.layout(charges.iter().map(|charge| (charge.meter, charge.parts.as_slice())));
            let mut argument = Vec::new();
            script::write_forgotten(&mut argument, None, layout.groups, &layout.places);
            let reply = self.run(shard, script, &layout.keys, &argument).await?;
            script::read_forgotten(&reply, charges.len()).map_err(|_| StoreError::Nonsense("to a reset"))
        })
    }

    fn probe(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            match &self.servers {
                Servers::One(node) => node.probe(&format!("{}:probe", self.prefix)).await,
                Servers::Cluster(cluster) => cluster.probe(&self.prefix).await,
            }
        })
    }

    fn connected(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.connected.notified())
    }

    fn is_degraded(&self) -> bool {
        match &self.servers {
            Servers::One(node) => node.breaker.is_open(),
            Servers::Cluster(cluster) => cluster.is_degraded(),
        }
    }
}
