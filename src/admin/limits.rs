//! `limits`: the counters of one caller, read or reset, in whatever store they are.
//!
//! Counters are asked for in calls of at most [`CALL_COUNTERS`], so that no call keeps a shared store busy for long. Reading
//! takes nothing. A reset is told in the log, with who asked for it.

use super::Admin;
use super::answer::{Failure, Reply, json};
use crate::algorithm::UNIT;
use crate::charge::{Charge, Part, Reading};
use crate::config::model::Mode;
use crate::policy::Policy;
use crate::policy::limit::Limit;
use crate::policy::subject::{Counters, MAX_COUNTERS, Subject};
use crate::proxy::snapshot::Snapshot;
use crate::request::client::parse_address;
use crate::request::query;
use serde_json::{Map, Value, json};

/// Counters in one call of the store.
const CALL_COUNTERS: usize = 32;

/// The parameters that say who is asked about.
const CALLERS: &str = "consumer, ip or key_id";

impl Admin {
    pub(super) async fn show_limits(&self, snapshot: &Snapshot, query: &str) -> Result<Reply, Failure> {
        let policy = &snapshot.policy;
        let subject = subject(policy, query)?;
        let counters = counters(policy, &subject)?;
        let charges = counters.charges(policy);
        let mut readings = Vec::with_capacity(charges.len());
        for call in charges.chunks(CALL_COUNTERS) {
            let asked = self.parts.store.acquire(self.parts.clock.now(), call).resolve().await;
            let outcome = asked.map_err(|error| Failure::limiter_unavailable(format!("Nothing was read: {error}.")))?;
            readings.extend(outcome.readings);
        }
        let lines = counters.found.iter().zip(&charges).zip(&readings);
        let lines: Vec<Value> = lines
            .map(|(((limit, _), charge), reading)| {
                let limit = &policy.limits[*limit];
                let mut line = name(limit, charge);
                line.extend(standing(limit, reading));
                Value::Object(line)
            })
            .collect();
        Ok(json(&json!({
            "caller": caller(policy, &subject),
            "store": self.parts.store.name(),
            "limits": lines,
            "open": open(policy, &counters),
        })))
    }

    pub(super) async fn reset_limits(
        &self,
        snapshot: &Snapshot,
        query: &str,
        peer: Option<&pingora::protocols::l4::socket::SocketAddr>,
    ) -> Result<Reply, Failure> {
        let policy = &snapshot.policy;
        let subject = subject(policy, query)?;
        let counters = counters(policy, &subject)?;
        let charges = counters.charges(policy);
        let caller = caller(policy, &subject);
        let peer = peer.map(ToString::to_string).unwrap_or_default();
        let mut reset = Vec::new();
        for (call, named) in charges.chunks(CALL_COUNTERS).zip(counters.found.chunks(CALL_COUNTERS)) {
            match self.parts.store.forget(call).resolve().await {
                Ok(existed) => {
                    let held = call.iter().zip(named).zip(existed).filter(|(_, existed)| *existed);
                    reset.extend(held.map(|((charge, (limit, _)), _)| name(&policy.limits[*limit], charge)));
                }
                Err(error) => {
                    tracing::warn!(peer, %caller, reset = reset.len(), %error, "a reset of counters failed");
                    let message = format!("{} counters were reset, the others may not be: {error}.", reset.len());
                    return Err(Failure::limiter_unavailable(message));
                }
            }
        }
        tracing::warn!(peer, %caller, reset = reset.len(), "counters were reset");
        Ok(json(&json!({ "caller": caller, "reset": reset, "open": open(policy, &counters) })))
    }
}

/// The parameters of a query, decoded.
pub fn parameters(query: &str) -> Result<Vec<(String, String)>, Failure> {
    let decoded = |text: &str| {
        let text = query::decoded(text.as_bytes()).map(|bytes| bytes.into_owned());
        text.and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| Failure::bad_request("The query has an escape that is broken or no UTF-8."))
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// Whom a query asks about.
fn subject(policy: &Policy, query: &str) -> Result<Subject, Failure> {
    let mut subject = Subject::default();
    for (name, value) in parameters(query)? {
        match name.as_str() {
            "consumer" | "key_id" if subject.consumer.is_some() => {
                return Err(Failure::bad_request("Name one consumer or one key, not two."));
            }
            "ip" if subject.group.is_some() => return Err(Failure::bad_request("Name one address, not two.")),
            "consumer" => subject.consumer = Some(consumer(policy, &value)?),
            "key_id" => subject.consumer = Some(consumer_of_key(policy, &value)?),
            "ip" => {
                let address = parse_address(value.as_bytes())
                    .ok_or_else(|| Failure::bad_request("ip must be an address, such as 203.0.113.7."))?;
                subject.group = Some(policy.address_rules.group(address));
            }
            "host" | "method" => subject.values.push((name, value)),
            named if named.starts_with("header:") || named.starts_with("param:") => {
                subject.values.push((name, value));
            }
            _ => {
                let message = format!("Say {CALLERS}; beside it host, method, header:NAME and param:NAME.");
                return Err(Failure::bad_request(message));
            }
        }
    }
    if subject.consumer.is_none() && subject.group.is_none() {
        return Err(Failure::bad_request(format!("Say whom you ask about: {CALLERS}.")));
    }
    Ok(subject)
}

fn consumer(policy: &Policy, name: &str) -> Result<usize, Failure> {
    let found = policy.consumers.iter().position(|consumer| *consumer.name == *name);
    found.ok_or_else(|| Failure::not_found("There is no such consumer in the configuration in force."))
}

fn consumer_of_key(policy: &Policy, id: &str) -> Result<usize, Failure> {
    let mut records = (0..policy.keys.len()).map(|index| policy.keys.record(index));
    let found = records.find(|record| record.id() == id);
    found
        .map(|record| record.consumer())
        .ok_or_else(|| Failure::not_found("There is no such key in the configuration in force."))
}

fn counters<'a>(policy: &'a Policy, subject: &'a Subject) -> Result<Counters<'a>, Failure> {
    policy.counters_of(subject).map_err(|_| {
        let message = format!("The caller has more than {MAX_COUNTERS} counters: name a method.");
        Failure::bad_request(message)
    })
}

fn caller(policy: &Policy, subject: &Subject) -> Value {
    let mut caller = Map::new();
    if let Some(consumer) = subject.consumer.map(|index| &policy.consumers[index]) {
        caller.insert("consumer".to_owned(), json!(&*consumer.name));
        caller.insert("tier".to_owned(), json!(&*policy.tiers[consumer.tier].name));
    }
    if let Some(group) = subject.group {
        caller.insert("ip".to_owned(), json!(group.to_string()));
    }
    Value::Object(caller)
}

/// Limits that have more counters of the caller, and what has to be said to reach those.
fn open(policy: &Policy, counters: &Counters<'_>) -> Vec<Value> {
    let line = |(limit, tags): &(usize, Vec<&str>)| json!({ "limit": &*policy.limits[*limit].name, "not_said": tags });
    counters.open.iter().map(line).collect()
}

/// Which counter: its limit, and what picks it.
fn name(limit: &Limit, charge: &Charge<'_>) -> Map<String, Value> {
    let mut picked = Map::new();
    for (axis, part) in limit.per.iter().zip(&charge.parts) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (tag, value) = match part {
            Part::Address(address) => ("ip", address.to_string()),
            Part::Named(_, value) => (axis.tag(), text(value)),
            Part::Owned(_, value) => (axis.tag(), text(value)),
        };
        if tag != "global" {
            picked.insert(tag.to_owned(), json!(value));
        }
    }
    let mut line = Map::new();
    line.insert("limit".to_owned(), json!(&*limit.name));
    line.insert("layer".to_owned(), json!(limit.layer.name()));
    line.insert("counter".to_owned(), Value::Object(picked));
    line
}

/// What a counter has left, in requests of cost 1; nothing of it when the store could not say.
fn standing(limit: &Limit, reading: &Reading) -> Map<String, Value> {
    let requests = |units: i64| json!(units as f64 / UNIT as f64);
    let capacity = limit.meter.quota.capacity;
    let standing = json!({
        "algorithm": limit.meter.algorithm.name(),
        "rate": &*limit.text.rate,
        "mode": if limit.mode == Mode::Enforce { "enforce" } else { "shadow" },
        "capacity": requests(capacity),
        "known": reading.known,
        "stand_in": reading.stand_in,
        "remaining": reading.known.then(|| requests(reading.remaining)),
        "used": reading.known.then(|| requests((capacity - reading.remaining).max(0))),
        "reset_seconds": reading.known.then(|| reading.reset.seconds_up()),
    });
    match standing {
        Value::Object(standing) => standing,
        _ => Map::new(),
    }
}
