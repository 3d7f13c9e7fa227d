//! Counters in Redis, shared by any number of gateways: one server, a master behind sentinels, or a Cluster.
//!
//! One script call decides all charges of one request that share a slot; Redis runs it alone, which is what makes it atomic
//! between gateways, and its clock is the only one that matters. Limits of one owner and one partition share a key. This module
//! puts charges into calls and answers back; connections are [`link`]'s, the arithmetic is in `lua/`. It sets no deadline:
//! [`super::fallback`] does.

mod address;
mod cluster;
mod key;
mod link;
mod node;
pub mod script;
mod slot;

use super::StoreError;
use super::breaker::Breaker;
use super::shared::{Call, Shard, Shared};
use crate::charge::{Charge, Correction, Meter, Outcome, Part};
use crate::config::model::{Redis, RedisMode};
use crate::time::Timestamp;
use address::Target;
use cluster::Cluster;
use node::Node;
use redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use script::{Place, Purpose, Script, Shape};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a start looks whether the servers are connected.
const CONTACT_POLL: Duration = Duration::from_millis(10);

/// The shared store.
pub struct RedisStore {
    servers: Servers,
    prefix: String,
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
    /// starting. An error is a URL that cannot be read; it quotes none.
    pub fn open(settings: &Redis) -> Result<Arc<Self>, String> {
        let urls: Vec<ConnectionInfo> =
            settings.urls.iter().map(|url| parse(url.reveal())).collect::<Result<_, _>>()?;
        let timeout = settings.timeout.to_duration();
        let with_credentials = |server: &ConnectionInfo| {
            let own = server.redis_settings();
            server.clone().set_redis_settings(credentials(own.clone(), settings))
        };
        let first = urls.first().ok_or("no URL is configured")?;
        let servers = match settings.mode {
            RedisMode::Single => Servers::One(Node::start(Target::Single(with_credentials(first)), timeout)),
            RedisMode::Sentinel => {
                let data = credentials(RedisConnectionInfo::default(), settings);
                let target = Target::Sentinel { sentinels: urls.clone(), master: settings.master.clone(), data };
                Servers::One(Node::start(target, timeout))
            }
            RedisMode::Cluster => {
                Servers::Cluster(Cluster::start(urls.iter().map(with_credentials).collect(), timeout))
            }
        };
        Ok(Arc::new(Self { servers, prefix: settings.prefix.clone(), told_replaced: AtomicBool::new(false) }))
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
            let is_log = script::is_log(meter.algorithm);
            let mut key = String::with_capacity(64);
            key::write(&mut key, &self.prefix, parts, if is_log { &meter.name } else { &meter.owner });
            (is_log, key)
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

fn parse(url: &str) -> Result<ConnectionInfo, String> {
    // The library's error may quote the URL, and with it a password.
    url.into_connection_info().map_err(|_| "[store.redis].urls holds a URL that cannot be read".to_owned())
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

    fn acquire<'a>(&'a self, shard: Shard, _now: Timestamp, charges: &'a [Charge<'_>]) -> Call<'a, Outcome> {
        let layout = self.layout(charges.iter().map(|charge| (charge.meter, charge.parts.as_slice())));
        // Outside the future, and so outside its deadline: the first of a shape has its script joined.
        let (script, argument) = script::acquire(None, layout.groups, charges, &layout.places);
        Box::pin(async move {
            let reply = self.run(shard, script, &layout.keys, &argument).await?;
            let acquired =
                script::read_acquired(&reply, charges.len()).map_err(|_| StoreError::Nonsense("to a decision"))?;
            self.tell_replaced(acquired.replaced);
            Ok(acquired.outcome)
        })
    }

    fn settle<'a>(&'a self, shard: Shard, _now: Timestamp, corrections: &'a [Correction<'_>]) -> Call<'a, ()> {
        let script = Script::of(Purpose::Settle, Shape::of_corrections(corrections));
        Box::pin(async move {
            let layout =
                self.layout(corrections.iter().map(|correction| (correction.meter, correction.parts.as_slice())));
            let mut argument = Vec::new();
            script::write_corrections(&mut argument, None, layout.groups, corrections, &layout.places);
            let reply = self.run(shard, script, &layout.keys, &argument).await?;
            let settled = script::read_settled(&reply).map_err(|_| StoreError::Nonsense("to a settlement"))?;
            self.tell_replaced(settled.replaced);
            Ok(())
        })
    }

    fn forget<'a>(&'a self, shard: Shard, charges: &'a [Charge<'_>]) -> Call<'a, Vec<bool>> {
        Box::pin(async move {
            let layout = self.layout(charges.iter().map(|charge| (charge.meter, charge.parts.as_slice())));
            let mut existed = Vec::with_capacity(layout.keys.len());
            for key in &layout.keys {
                existed.push(match &self.servers {
                    Servers::One(node) => node.unlink(key, false).await.map_err(node::CallError::into_store_error)?,
                    Servers::Cluster(cluster) => cluster.unlink(shard, key).await?,
                });
            }
            Ok(layout.places.iter().map(|place| existed[place.key]).collect())
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

    fn is_degraded(&self) -> bool {
        match &self.servers {
            Servers::One(node) => node.breaker.is_open(),
            Servers::Cluster(cluster) => cluster.is_degraded(),
        }
    }
}
