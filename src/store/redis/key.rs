//! What counters are called in Redis.
//!
//! `sluicegate:{consumer:acme}:_all`: the prefix, the subject in braces, which limits, and what else splits them. The
//! braces are a hash tag, so that one caller's counters share a slot of a Cluster. A key says nothing of who has a limit (a
//! tier, a route), so that a limit that moves keeps its counters. What a client can choose is encoded:
//! every byte but letters, digits, `-`, `_`, `.` and `~` becomes `%XX`, so that a value can neither close the brace nor pretend to be
//! another part. Addresses keep their `:`, which is how people read them; they hold nothing a client can choose freely.

use crate::charge::Part;
use std::fmt::Write as _;

/// In the place of a limit's name: all of a caller's limits that are split alike. No limit can have this name.
const ALL: &str = "_all";

/// Subjects that many callers share. A key for all of their limits would be rewritten by everybody, for the sake of limits that
/// no single request meets together.
const OF_MANY_CALLERS: &[&str] = &["global", "route", "tier", "host", "method"];

/// Which limits share a key with the limit of that name: all of a caller's that are split alike, or none.
pub fn tail<'a>(limit: &'a str, is_log: bool, parts: &[Part<'_>]) -> &'a str {
    let is_of_a_caller = match parts.first() {
        Some(Part::Address(_)) => true,
        Some(Part::Named(kind, _)) => !OF_MANY_CALLERS.contains(kind),
        Some(Part::Owned(kind, _)) => !OF_MANY_CALLERS.contains(&&**kind),
        None => false,
    };
    if is_of_a_caller && !is_log { ALL } else { limit }
}

/// Appends a counter's key; for `tail` see [`tail`].
pub fn write(key: &mut String, prefix: &str, parts: &[Part<'_>], tail: &str) {
    key.push_str(prefix);
    key.push_str(":{");
    // Without a part there is one counter for all.
    match parts.first() {
        Some(subject) => write_part(key, subject),
        None => key.push_str("global"),
    }
    key.push_str("}:");
    key.push_str(tail);
    for part in parts.iter().skip(1) {
        key.push(':');
        write_part(key, part);
    }
}

fn write_part(key: &mut String, part: &Part<'_>) {
    match part {
        Part::Address(address) => {
            let _ = write!(key, "ip:{address}");
        }
        Part::Named(kind, value) => write_named(key, kind, value),
        Part::Owned(kind, value) => write_named(key, kind, value),
    }
}

fn write_named(key: &mut String, kind: &str, value: &[u8]) {
    write_encoded(key, kind.as_bytes(), true);
    if kind != "global" {
        key.push(':');
        write_encoded(key, value, false);
    }
}

fn write_encoded(key: &mut String, bytes: &[u8], colons: bool) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) || (colons && *byte == b':') {
            key.push(char::from(*byte));
        } else {
            let _ = write!(key, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[Part<'_>], tail: &str) -> String {
        let mut key = String::new();
        write(&mut key, "sluicegate", parts, tail);
        key
    }

    #[test]
    fn keys_read_as_the_operators_page_says() {
        let route = Part::Named("route", b"POST /api/export");
        let acme = Part::Named("consumer", b"acme");
        let key = |limit, is_log, parts: &[Part<'_>]| key(parts, tail(limit, is_log, parts));
        assert_eq!(key("pro-day", false, std::slice::from_ref(&acme)), "sluicegate:{consumer:acme}:_all");
        let split = [acme, route];
        assert_eq!(key("x", false, &split), "sluicegate:{consumer:acme}:_all:route:POST%20%2Fapi%2Fexport");
        assert_eq!(key("x", true, &split), "sluicegate:{consumer:acme}:x:route:POST%20%2Fapi%2Fexport");
        let address = [Part::Address("2001:db8::".parse().unwrap())];
        assert_eq!(key("ip-min", false, &address), "sluicegate:{ip:2001:db8::}:_all");
        assert_eq!(key("every", false, &[Part::Named("global", b"")]), "sluicegate:{global}:every");
        assert_eq!(key("every", false, &[]), "sluicegate:{global}:every");
        assert_eq!(key("all-exports", false, &split[1..]), "sluicegate:{route:POST%20%2Fapi%2Fexport}:all-exports");
    }

    #[test]
    fn limits_share_a_key_only_when_one_caller_is_split_alike() {
        let named = |kind, value: &'static str| Part::Named(kind, value.as_bytes());
        let splits: [Vec<Part<'_>>; 8] = [
            vec![named("consumer", "a")],
            vec![named("consumer", "b")],
            vec![named("header:x", "a")],
            vec![named("param:x", "a")],
            vec![named("consumer", "a"), named("route", "b")],
            vec![named("consumer", "a"), named("method", "b")],
            vec![named("consumer", "a"), named("route", "b"), named("method", "c")],
            vec![Part::Address("10.0.0.1".parse().unwrap())],
        ];
        let of = |parts: &[Part<'_>], limit| key(parts, tail(limit, false, parts));
        let keys: std::collections::BTreeSet<String> = splits.iter().map(|parts| of(parts, "one")).collect();
        assert_eq!(keys.len(), splits.len());
        assert!(splits.iter().all(|parts| of(parts, "one") == of(parts, "two")));
        for kind in OF_MANY_CALLERS {
            let parts = [named(kind, "a"), named("consumer", "a")];
            let owned = [Part::Owned((*kind).into(), b"a".as_slice().into()), named("consumer", "a")];
            assert_ne!(of(&parts, "one"), of(&parts, "two"), "{kind}");
            assert_eq!(of(&parts, "one"), of(&owned, "one"), "{kind}");
        }
    }

    #[test]
    fn b137_what_a_client_chooses_never_closes_the_brace_or_meets_another_key() {
        let values: [&[u8]; 8] = [b"{a}", b"}", b"a}:b", b"a:b", b"a", b"", b"%7D", b"\xff"];
        let keys: std::collections::BTreeSet<String> =
            values.iter().map(|value| key(&[Part::Named("header:x", value)], "t")).collect();
        assert_eq!(keys.len(), values.len());
        for key in keys {
            assert_eq!((key.matches('{').count(), key.matches('}').count()), (1, 1), "{key}");
        }
    }
}
