//! Weighted rendezvous hashing: each key ranks all servers, and the first of them that may be used takes it.
//!
//! A server that goes away moves its own keys and no others; one that comes back gets the same keys again; a changed weight
//! moves only what the change is worth. There is no ring to build and no table to keep: a rank is a hash of the key and the
//! server's address, so gateways that never heard of each other agree.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::SocketAddr;

/// A key's digest: the first part keeps kinds of keys apart, so that an address never equals a name spelled like it.
pub fn key_of(kind: &str, value: &[u8]) -> u64 {
    digest([kind.as_bytes(), &[0xff], value])
}

/// A server's digest.
pub fn server_of(address: SocketAddr) -> u64 {
    digest([address.to_string().as_bytes()])
}

/// How a key ranks a server: the highest takes it. The chance to be the highest is proportional to the weight.
pub fn rank(key: u64, server: u64, weight: i64) -> f64 {
    let hash = digest([&key.to_le_bytes()[..], &server.to_le_bytes()[..]]);
    // The upper 53 bits, which a double holds exactly, moved off 0 and 1.
    let share = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    weight as f64 / -share.ln()
}

/// Its own fixed keys, because gateways must agree. A client that looks for keys of one server finds them in any scheme
/// that gateways agree on.
fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    parts.into_iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> u64 {
        server_of(SocketAddr::from(([10, 0, 0, 1], port)))
    }

    fn first(key: u64, servers: &[(u16, i64)]) -> u16 {
        let by_rank = |one: &&(u16, i64), other: &&(u16, i64)| {
            rank(key, server(one.0), one.1).total_cmp(&rank(key, server(other.0), other.1))
        };
        servers.iter().max_by(by_rank).expect("there are servers").0
    }

    fn keys() -> impl Iterator<Item = u64> {
        (0..20_000_u32).map(|number| key_of("test", &number.to_le_bytes()))
    }

    #[test]
    fn a_server_that_leaves_moves_its_own_keys_only() {
        let (all, fewer) = ([(1, 1), (2, 1), (3, 1), (4, 1)], [(1, 1), (2, 1), (4, 1)]);
        let moved = keys().filter(|key| first(*key, &all) != first(*key, &fewer)).count();
        assert_eq!(moved, keys().filter(|key| first(*key, &all) == 3).count());
        assert!((4500..5500).contains(&moved), "about a quarter, not {moved}");
    }

    #[test]
    fn keys_are_shared_by_weight() {
        let servers = [(1, 1), (2, 2), (3, 5)];
        let share = |port| keys().filter(|key| first(*key, &servers) == port).count();
        for (port, expected) in [(1, 2500), (2, 5000), (3, 12_500)] {
            let got = share(port);
            assert!(got.abs_diff(expected) < 300, "server {port}: {got} of about {expected}");
        }
    }

    #[test]
    fn a_greater_weight_only_draws_keys_to_its_server() {
        let (before, after) = ([(1, 1), (2, 1), (3, 1)], [(1, 1), (2, 1), (3, 2)]);
        let moved: Vec<u64> = keys().filter(|key| first(*key, &before) != first(*key, &after)).collect();
        assert!(!moved.is_empty() && moved.iter().all(|key| first(*key, &after) == 3));
    }

    #[test]
    fn kinds_of_keys_are_kept_apart_and_digests_do_not_change_with_versions() {
        assert_ne!(key_of("ip", b"acme"), key_of("consumer", b"acme"));
        assert_ne!(key_of("i", b"pacme"), key_of("ip", b"acme"));
        let chosen =
            [1, 2, 3, 4, 5, 6].map(|last| first(key_of("ip", &[203, 0, 113, last]), &[(1, 1), (2, 1), (3, 1)]));
        assert_eq!(chosen, [1, 1, 1, 1, 1, 3]);
    }
}
