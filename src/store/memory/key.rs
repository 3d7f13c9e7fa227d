//! Which counter a charge means: a digest of its name, 128 bits wide, under a secret of this process.
//!
//! The name is made of parts that come from clients: a header, a path parameter. A plain 64-bit hash would let one of
//! them search for a value that falls together with another's counter and drain it. Under a secret key a collision can
//! only be met by chance, once in 2^64 counters. The parts themselves are not kept.

use crate::charge::{Charge, Part, write_name};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A counter's name inside this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Picks the shard.
    pub(super) high: u64,
    /// Picks the place in the shard's table.
    pub(super) low: u64,
}

/// What makes the keys of this process unlike those of any other.
pub(in crate::store) struct Secret(pub(super) u64, pub(super) u64);

impl Secret {
    /// A new one, from the randomness of the operating system that seeds the standard library's hash maps.
    pub(in crate::store) fn random() -> Self {
        Self(RandomState::new().hash_one(0u8), RandomState::new().hash_one(1u8))
    }

    /// The key of the counter of that identity and these parts.
    pub(super) fn key(&self, identity: &str, parts: &[Part<'_>]) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        write_name(identity, parts, |bytes| hasher.write(bytes));
        let digest = hasher.finish128();
        Key { high: digest.h1, low: digest.h2 }
    }

    /// A digest of a whole set of charges: counters, costs and quotas, in their order.
    pub(in crate::store) fn set_of(&self, charges: &[Charge<'_>]) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        for charge in charges {
            write_name(&charge.meter.identity, &charge.parts, |bytes| hasher.write(bytes));
            let quota = &charge.meter.quota;
            let max_wait = quota.max_wait.map_or(-1, |wait| wait.0);
            for number in [charge.cost, i64::from(charge.enforced), quota.count, quota.capacity, max_wait] {
                hasher.write_i64(number);
            }
        }
        u128::from(hasher.finish128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn all_differ(secret: &Secret, counters: &[(&str, Vec<Part<'_>>)]) {
        for (index, (identity, parts)) in counters.iter().enumerate() {
            for (other_identity, other_parts) in &counters[index + 1..] {
                let keys = (secret.key(identity, parts), secret.key(other_identity, other_parts));
                assert_ne!(keys.0, keys.1, "{identity} {parts:?} and {other_identity} {other_parts:?}");
            }
        }
    }

    #[test]
    fn b65_parts_of_the_same_text_never_share_a_counter() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let named = |kind, value: &'static str| Part::Named(kind, value.as_bytes());
        let counters = [
            ("l", vec![Part::Address(loopback)]),
            ("l", vec![Part::Address(mapped)]),
            ("l", vec![named("consumer", "127.0.0.1")]),
            ("l", vec![Part::Named("consumer", &[127, 0, 0, 1])]),
            ("l", vec![named("ip", "127.0.0.1")]),
            ("l", vec![named("consumer", "a"), named("route", "/b:c")]),
            ("l", vec![named("consumer", "a:b"), named("route", "/c")]),
            ("l", vec![named("consumer", "a"), named("route", "bc")]),
            ("l", vec![named("consumer", "ab"), named("route", "c")]),
            ("l", vec![named("route", "bc"), named("consumer", "a")]),
            ("l", vec![named("consumer", "a")]),
            ("l", vec![named("consumer", "a"), named("consumer", "")]),
            ("l", vec![named("consumera", "")]),
            ("l", vec![]),
            ("lconsumer", vec![]),
            ("", vec![named("consumer", "a")]),
        ];
        all_differ(&Secret::random(), &counters);
    }

    #[test]
    fn b124_long_values_that_differ_in_their_last_byte_are_different_counters() {
        let values: Vec<Vec<u8>> = (1..=9u8)
            .flat_map(|last| [33usize, 8192].map(|length| [vec![b'A'; length - 1], vec![last]].concat()))
            .collect();
        let counters: Vec<_> = values.iter().map(|value| ("l", vec![Part::Named("header:x-key", value)])).collect();
        all_differ(&Secret::random(), &counters);
    }

    #[test]
    fn a_borrowed_and_an_owned_value_are_the_same_counter() {
        let secret = Secret::random();
        let borrowed = secret.key("l", &[Part::Named("host", b"example.com")]);
        assert_eq!(borrowed, secret.key("l", &[Part::Owned("host".into(), b"example.com".as_slice().into())]));
    }

    #[test]
    fn keys_of_two_processes_have_nothing_in_common() {
        let parts = [Part::Address(IpAddr::V6(Ipv6Addr::LOCALHOST))];
        assert_ne!(Secret::random().key("l", &parts), Secret::random().key("l", &parts));
    }
}
