//! Where servers are: names and their addresses.
//!
//! A name is looked up when a configuration is put in force and again every [`REFRESH_INTERVAL`] in the background (the
//! system's resolver tells no TTL). All its addresses are used. An answer that does not come changes nothing: the last
//! addresses stay. Names that an earlier configuration knew are not looked up for a reload, so that an outage of the name
//! service does not keep a reload from taking effect.

use super::Upstream;
use crate::config::Problem;
use crate::config::model::{Name, UpstreamServer};
use crate::upstream::{MAX_ADDRESSES, Place};
use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How often names are looked up.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// A server as configured; where it is, is known of a literal address alone.
pub fn unresolved(written: &UpstreamServer) -> Place {
    let name = Name::from(written.address.value.as_str());
    let addresses = name.parse().into_iter().collect();
    Place { name, weight: written.weight, addresses }
}

fn is_literal(name: &str) -> bool {
    name.parse::<SocketAddr>().is_ok()
}

/// What a lookup found, in an order of its own: name servers turn theirs with each answer.
fn sorted(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

impl Upstream {
    /// The servers as configured.
    pub fn servers(&self) -> Vec<Name> {
        self.places.lock().iter().map(|place| place.name.clone()).collect()
    }

    pub fn has_names(&self) -> bool {
        self.places.lock().iter().any(|place| !is_literal(&place.name))
    }

    /// Finds the servers, and takes over what the upstream of the configuration before knew. Blocks while names are looked
    /// up; one that has no address is a problem.
    pub fn resolve(&self, known: Option<&Self>, problems: &mut Vec<Problem>) {
        let mut places = self.places.lock();
        for (place, at) in places.iter_mut().zip(&self.written_at) {
            if place.addresses.is_empty() {
                place.addresses = known.and_then(|known| known.addresses_of(&place.name)).unwrap_or_default();
            }
            if place.addresses.is_empty() {
                match place.name.to_socket_addrs().map(sorted) {
                    Ok(found) if found.is_empty() => {
                        problems.push(Problem::error(*at, format!("\"{}\" has no address", place.name)));
                    }
                    Ok(found) => place.addresses = found,
                    Err(error) => {
                        let message = format!("\"{}\" cannot be resolved: {error}", place.name);
                        problems.push(Problem::error(*at, message).hint("write \"host:port\""));
                    }
                }
            }
        }
        self.pool.settle(&places, &known.map(|known| known.pool.members()).unwrap_or_default());
    }

    fn addresses_of(&self, name: &str) -> Option<Vec<SocketAddr>> {
        self.places.lock().iter().find(|place| *place.name == *name).map(|place| place.addresses.clone())
    }

    /// Looks all names up again. `failing` holds those that could not be found the last time, so that it is told once.
    pub async fn refresh(&self, failing: &mut HashSet<Name>) {
        for name in self.servers().iter().filter(|name| !is_literal(name)) {
            let found = tokio::net::lookup_host(&**name).await.map(sorted);
            self.found(name, found, failing);
        }
    }

    /// Takes the answer to a lookup.
    fn found(&self, name: &Name, found: io::Result<Vec<SocketAddr>>, failing: &mut HashSet<Name>) {
        let found = found.and_then(|found| match found.is_empty() {
            true => Err(io::Error::other("no address")),
            false => Ok(found),
        });
        let addresses = match found {
            Ok(addresses) => addresses,
            Err(error) => {
                if failing.insert(name.clone()) {
                    tracing::warn!(upstream = self.name, server = &**name, %error, "name not found: the last addresses stay");
                }
                return;
            }
        };
        if failing.remove(name) {
            tracing::info!(upstream = self.name, server = &**name, "name found again");
        }
        let mut places = self.places.lock();
        let Some(place) = places.iter_mut().find(|place| place.name == *name) else { return };
        if place.addresses != addresses {
            tracing::info!(upstream = self.name, server = &**name, ?addresses, "the addresses of a name changed");
            place.addresses = addresses;
            self.pool.settle(&places, &self.pool.members());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::time::Timestamp;

    fn upstream(servers: &str) -> Upstream {
        let text = format!("[upstreams.u]\nservers = [{servers}]\n[[routes]]\nmatch = \"*\"\n");
        let loaded = config::load_text("test", &text, None, &|_| None);
        let config = loaded.config.expect("the text is a configuration");
        Upstream::compile(&config.upstreams[0], &mut Vec::new())
    }

    fn addresses(upstream: &Upstream) -> Vec<String> {
        upstream.pool.members().iter().map(|member| member.address.to_string()).collect()
    }

    fn at(text: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(sorted(text.split(' ').map(|address| address.parse().expect("an address"))))
    }

    #[test]
    fn literal_addresses_ask_nobody_and_a_name_without_address_is_a_problem() {
        let upstream = upstream("\"127.0.0.1:9000\", \"[::1]:9001\"");
        let mut problems = Vec::new();
        upstream.resolve(None, &mut problems);
        assert!(problems.is_empty() && !upstream.has_names());
        assert_eq!(addresses(&upstream), ["127.0.0.1:9000", "[::1]:9001"]);
        let unknown = self::upstream("\"does-not-exist.invalid:80\"");
        unknown.resolve(None, &mut problems);
        assert!(problems.len() == 1 && unknown.has_names(), "{problems:?}");
    }

    #[test]
    fn names_are_looked_up_in_the_background() {
        let upstream = upstream("\"localhost:80\", \"10.9.9.9:80\"");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads are to be had");
        let mut failing = HashSet::new();
        runtime.block_on(upstream.refresh(&mut failing));
        let found = addresses(&upstream);
        assert!(failing.is_empty() && found.last().is_some_and(|last| last == "10.9.9.9:80"), "{found:?}");
        assert!(found.iter().any(|address| ["127.0.0.1:80", "[::1]:80"].contains(&address.as_str())), "{found:?}");
    }

    #[test]
    fn all_addresses_of_a_name_are_used_and_a_failing_lookup_keeps_the_last() {
        let (upstream, name, mut failing) =
            (upstream("\"api.test:80\", \"10.9.9.9:80\""), Name::from("api.test:80"), HashSet::new());
        upstream.found(&name, at("10.0.0.2:80 10.0.0.1:80 10.0.0.2:80"), &mut failing);
        let both = ["10.0.0.1:80", "10.0.0.2:80", "10.9.9.9:80"];
        assert_eq!(addresses(&upstream), both);
        for _ in 0..2 {
            upstream.found(&name, Err(io::Error::other("the name service is down")), &mut failing);
            upstream.found(&name, Ok(Vec::new()), &mut failing);
            assert_eq!(addresses(&upstream), both);
            assert_eq!(failing.len(), 1);
        }
        upstream.found(&name, at("10.0.0.2:80 10.0.0.3:80"), &mut failing);
        assert_eq!(addresses(&upstream), ["10.0.0.2:80", "10.0.0.3:80", "10.9.9.9:80"]);
        assert!(failing.is_empty());
    }

    #[test]
    fn a_reload_needs_no_name_server_for_names_that_were_known() {
        let (old, new) = (upstream("\"api.invalid:80\""), upstream("\"api.invalid:80\", \"10.9.9.9:80\""));
        old.found(&Name::from("api.invalid:80"), at("10.0.0.1:80"), &mut HashSet::new());
        let open = old.pool.choose(None, &[], Timestamp(0)).expect("there is a server");
        let mut problems = Vec::new();
        new.resolve(Some(&old), &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(addresses(&new), ["10.0.0.1:80", "10.9.9.9:80"]);
        assert_eq!(new.pool.members()[0].in_flight(), 1);
        drop(open);
    }
}
