//! What counters are called in Redis.
//!
//! `sluicegate:{consumer:acme}:pro`: the prefix, the subject in braces, the owner of the limits, and what else splits them. The
//! braces are a hash tag, so that one caller's counters share a slot of a Cluster. What a client can choose is encoded:
//! every byte but letters, digits, `-`, `_`, `.` and `~` becomes `%XX`, so that a value can neither close the brace nor pretend to be
//! another part. Addresses keep their `:`, which is how people read them; they hold nothing a client can choose freely.

use crate::charge::Part;
use std::fmt::Write as _;

/// Appends a counter's key: `tail` is the owner, or the limit's own name where its state stands alone.
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
        assert_eq!(key(std::slice::from_ref(&acme), "pro"), "sluicegate:{consumer:acme}:pro");
        assert_eq!(key(&[acme, route], "x"), "sluicegate:{consumer:acme}:x:route:POST%20%2Fapi%2Fexport");
        let address = Part::Address("2001:db8::".parse().unwrap());
        assert_eq!(key(&[address], "ip"), "sluicegate:{ip:2001:db8::}:ip");
        assert_eq!(key(&[Part::Named("global", b"")], "custom"), "sluicegate:{global}:custom");
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
