//! `status`: how the gateway is, in one answer.

use super::{Admin, Health};
use crate::proxy::access_log::time_text;
use crate::proxy::snapshot::Snapshot;
use crate::reload::Report;
use serde_json::{Value, json};

impl Admin {
    pub(super) fn status(&self, snapshot: &Snapshot) -> Value {
        let parts = &self.parts;
        let policy = &snapshot.policy;
        let state = if *parts.shutting_down.borrow() { "draining" } else { self.store_word() };
        let upstreams = parts.metrics.upstreams().into_iter().map(|(name, servers)| {
            let servers: Vec<Value> =
                servers.into_iter().map(|(server, healthy)| json!({ "server": server, "healthy": healthy })).collect();
            json!({ "name": name, "servers": servers })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": if state == "good" { "ready" } else { state },
            "uptime_seconds": self.started.elapsed().as_secs(),
            "generation": snapshot.generation,
            "last_reload": parts.last_reload.lock().as_ref().map(reload),
            "store": {
                "backend": parts.store.name(),
                "health": self.store_word(),
                "breaker_open": (parts.health)() != Health::Good,
                "failures": parts.metrics.store_failures(),
                "entries": parts.store.entries(),
                "evictions": parts.metrics.evictions(),
            },
            "upstreams": upstreams.collect::<Vec<_>>(),
            "requests_in_flight": parts.metrics.in_flight(),
            "configured": {
                "routes": policy.routes.len(),
                "tiers": policy.tiers.len(),
                "limits": policy.written_limits().count(),
                "consumers": policy.consumers.len(),
                "keys": policy.keys.len(),
            },
        })
    }

    fn store_word(&self) -> &'static str {
        match (self.parts.health)() {
            Health::Good => "good",
            Health::Degraded => "degraded",
            Health::Bad => "bad",
        }
    }
}

fn reload(report: &Report) -> Value {
    json!({
        "at": time_text(report.at),
        "result": if report.generation.is_some() { "success" } else { "failure" },
        "generation": report.generation,
        "problems": report.problems,
    })
}
