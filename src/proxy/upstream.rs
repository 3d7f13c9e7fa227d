//! Where requests go: the servers of each upstream, their order, timeouts and retries.
//!
//! Addresses are resolved when the configuration is loaded, never on a request. Servers take turns by weight in one
//! fixed, evenly mixed order, so that a weight of 2 gets every second and not a burst. Nothing here charges a limit:
//! choosing a server again for a retry costs the caller nothing.

use crate::config::Problem;
use crate::config::model::{Name, Upstream as Written, UpstreamProtocol};
use crate::time::Millis;
use pingora::protocols::ALPN;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long an unused connection to a server is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest order of turns; weights are scaled down to it.
const MAX_TURNS: usize = 4096;

/// One upstream, ready to be used.
#[derive(Debug)]
pub struct Upstream {
    pub name: String,
    servers: Vec<Server>,
    /// Indices into `servers`, one round of turns.
    turns: Vec<usize>,
    next: AtomicUsize,
    protocol: UpstreamProtocol,
    connect_timeout: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    retries: u32,
}

#[derive(Debug)]
struct Server {
    /// As configured.
    name: Name,
    address: SocketAddr,
}

impl Upstream {
    /// Resolves the servers; one that cannot be resolved is a problem.
    pub fn resolve(written: &Written, problems: &mut Vec<Problem>) -> Self {
        let mut servers = Vec::new();
        let mut weights = Vec::new();
        for server in &written.servers {
            let name = &server.address.value;
            match name.to_socket_addrs().map(|mut addresses| addresses.next()) {
                Ok(Some(address)) => {
                    servers.push(Server { name: Name::from(name.as_str()), address });
                    weights.push(server.weight);
                }
                Ok(None) => problems.push(Problem::error(server.address.at, format!("\"{name}\" has no address"))),
                Err(error) => problems.push(
                    Problem::error(server.address.at, format!("\"{name}\" cannot be resolved: {error}"))
                        .hint("write \"host:port\""),
                ),
            }
        }
        Self {
            name: written.name.value.clone(),
            servers,
            turns: turns(&weights),
            next: AtomicUsize::new(0),
            protocol: written.protocol,
            connect_timeout: written.connect_timeout.to_duration(),
            read_timeout: written.read_timeout.to_duration(),
            write_timeout: written.write_timeout.to_duration(),
            retries: written.retries,
        }
    }

    /// The server whose turn it is, and its name. `read_timeout` is the route's own, if it has one.
    pub fn peer(&self, read_timeout: Option<Millis>) -> Option<(HttpPeer, Name)> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let server = &self.servers[*self.turns.get(turn % self.turns.len().max(1))?];
        let mut peer = HttpPeer::new(server.address, false, String::new());
        let options = &mut peer.options;
        options.connection_timeout = Some(self.connect_timeout);
        options.total_connection_timeout = Some(self.connect_timeout);
        options.read_timeout = Some(read_timeout.map_or(self.read_timeout, Millis::to_duration));
        options.write_timeout = Some(self.write_timeout);
        options.idle_timeout = Some(IDLE_TIMEOUT);
        if self.protocol == UpstreamProtocol::H2 {
            options.alpn = ALPN::H2;
        }
        Some((peer, server.name.clone()))
    }

    /// Whether a request that failed after `tries` attempts may be tried again: when nothing of it was sent, or when
    /// its method is idempotent, all of its body is at hand and no response has begun. A server that does not answer
    /// in time is not asked again: that would only double the wait.
    pub fn may_retry(&self, tries: u32, session: &Session, error: &Error, sent: bool) -> bool {
        if tries > self.retries {
            return false;
        }
        if !sent {
            return true;
        }
        let timed_out = matches!(error.etype(), ErrorType::ReadTimedout | ErrorType::WriteTimedout);
        !timed_out
            && session.req_header().method.is_idempotent()
            && !session.as_downstream().retry_buffer_truncated()
            && session.response_written().is_none()
    }
}

/// One round of turns, each server as often as its weight, spread evenly (smooth weighted round robin, as in nginx).
fn turns(weights: &[u32]) -> Vec<usize> {
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let total: u64 = weights.iter().map(|weight| u64::from(weight / divisor)).sum();
    let scale = total.div_ceil(MAX_TURNS as u64).max(1);
    let weights: Vec<i64> = weights
        .iter()
        .map(|weight| i64::try_from((u64::from(weight / divisor) / scale).max(1)).expect("a u32 fits"))
        .collect();
    let total: i64 = weights.iter().sum();
    let mut current = vec![0_i64; weights.len()];
    (0..total)
        .filter_map(|_| {
            current.iter_mut().zip(&weights).for_each(|(current, weight)| *current += weight);
            let chosen = (0..current.len()).rev().max_by_key(|index| current[*index])?;
            current[chosen] -= total;
            Some(chosen)
        })
        .collect()
}

fn gcd(first: u32, second: u32) -> u32 {
    if second == 0 { first } else { gcd(second, first % second) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_the_weights_and_are_mixed() {
        assert_eq!(turns(&[1, 2]), [1, 0, 1]);
        assert_eq!(turns(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns(&[10, 10]), [0, 1]);
        assert!(turns(&[]).is_empty());
    }

    #[test]
    fn huge_weights_make_a_bounded_round() {
        let round = turns(&[1_000_000, 1]);
        assert!(round.len() <= MAX_TURNS + 2, "{}", round.len());
        assert!(round.contains(&1));
    }
}
