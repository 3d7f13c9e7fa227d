//! Keys: who they belong to, when, and where they may be used.

use super::*;
use crate::config::pattern;
use proptest::prelude::*;
use std::borrow::Cow;

fn digest_of(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn key(secret: &str, consumer: usize) -> NewKey {
    NewKey {
        digest: digest_of(secret),
        consumer,
        id: format!("id-{consumer}").into(),
        not_before: None,
        expires: None,
        routes: None,
        allow_ips: None,
        disabled: false,
    }
}

fn present(secret: &str) -> Presented<'_> {
    Presented::One(Cow::Borrowed(secret.as_bytes()))
}

/// The consumer, or why not.
fn identified(table: &KeyTable, secret: &str, now: i64) -> Result<usize, WrongKey> {
    match table.identify(&present(secret), Timestamp(now)) {
        Identity::Known(index) => Ok(table.record(index).consumer()),
        Identity::Wrong(reason) => Err(reason),
        other => panic!("{other:?}"),
    }
}

fn scope(text: &str) -> KeyPattern {
    pattern::key(text).unwrap_or_else(|complaint| panic!("{text}: {}", complaint.message))
}

/// Whether a key of this scope may make the request.
fn permits(scopes: &[&str], method: &str, path: &str) -> bool {
    let routes = Some(scopes.iter().map(|text| scope(text)).collect());
    let table = KeyTable::build(vec![NewKey { routes, ..key("K", 0) }]).unwrap();
    let Identity::Known(index) = table.identify(&present("K"), Timestamp(0)) else { panic!("the key is known") };
    let record = table.record(index);
    record.permits(method, path, IpAddr::from([1, 1, 1, 1]))
}

#[test]
fn a_key_is_known_by_the_digest_of_all_of_it() {
    let secret = "gk_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg37cCQ0";
    let hex: String = digest_of(secret).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "93a42339372a05b7f9213a8439eca01756ab18485d99cbf02c5308f3a6909ad2");
    let table = KeyTable::build(vec![key("other", 1), key(secret, 7)]).unwrap();
    assert_eq!(identified(&table, secret, 0), Ok(7));
    assert_eq!(table.len(), 2);
    for wrong in [&secret[1..], &secret[..secret.len() - 1], &secret.to_lowercase(), ""] {
        assert_eq!(identified(&table, wrong, 0), Err(WrongKey::Invalid), "{wrong}");
    }
}

#[test]
fn b124_keys_that_differ_in_their_last_character_are_different() {
    let secrets: Vec<String> = ('1'..='9').map(|last| format!("live_{}{last}", "A".repeat(40))).collect();
    let keys = secrets.iter().enumerate().map(|(consumer, secret)| key(secret, consumer)).collect();
    let table = KeyTable::build(keys).unwrap();
    for (consumer, secret) in secrets.iter().enumerate() {
        assert_eq!(identified(&table, secret, 0), Ok(consumer));
    }
}

#[test]
fn b144_a_key_is_hashed_before_it_is_looked_up() {
    // A table that holds the very bytes of a guess as a digest does not know the guess.
    let guess = "0123456789abcdef0123456789abcdef";
    let digest: [u8; 32] = guess.as_bytes().try_into().unwrap();
    let table = KeyTable::build(vec![NewKey { digest, ..key("", 0) }]).unwrap();
    assert_eq!(identified(&table, guess, 0), Err(WrongKey::Invalid));
}

#[test]
fn b144_digests_of_one_place_are_told_apart_whole() {
    let real = digest_of("K");
    let keys = (0..32).map(|byte| {
        let mut digest = real;
        digest[byte] ^= 1;
        NewKey { digest, ..key("", 99) }
    });
    let table = KeyTable::build(keys.collect()).unwrap();
    assert_eq!(identified(&table, "K", 0), Err(WrongKey::Invalid));
    assert_eq!(table.len(), 32);
}

#[test]
fn a_key_is_valid_from_its_first_instant_to_before_its_last() {
    let bounded = NewKey { not_before: Some(Timestamp(1000)), expires: Some(Timestamp(2000)), ..key("K", 3) };
    let disabled = NewKey { disabled: true, expires: Some(Timestamp(0)), ..key("D", 4) };
    let table = KeyTable::build(vec![bounded, disabled]).unwrap();
    assert_eq!(identified(&table, "K", 999), Err(WrongKey::NotYetValid));
    assert_eq!(identified(&table, "K", 1000), Ok(3));
    assert_eq!(identified(&table, "K", 1999), Ok(3));
    assert_eq!(identified(&table, "K", 2000), Err(WrongKey::Expired));
    assert_eq!(identified(&table, "D", 5), Err(WrongKey::Disabled));
}

#[test]
fn what_is_no_key_is_not_looked_up() {
    let table = KeyTable::build(vec![key("K", 0)]).unwrap();
    let identify = |presented| table.identify(&presented, Timestamp(0));
    assert!(matches!(identify(Presented::None), Identity::Anonymous));
    assert!(matches!(identify(Presented::Ambiguous), Identity::Ambiguous));
    assert!(matches!(identify(Presented::Malformed), Identity::Wrong(WrongKey::Malformed)));
    assert!(KeyTable::build(vec![]).unwrap().is_empty());
}

#[test]
fn the_reasons_are_those_of_the_metrics() {
    let reasons =
        [WrongKey::Invalid, WrongKey::NotYetValid, WrongKey::Expired, WrongKey::Disabled, WrongKey::Malformed];
    assert_eq!(reasons.map(WrongKey::reason), ["invalid", "not_yet_valid", "expired", "disabled", "invalid"]);
}

#[test]
fn equal_digests_are_told() {
    let keys = vec![key("A", 0), key("B", 1), key("A", 2), key("C", 3), key("A", 4)];
    let expected = [DuplicateKey { first: 0, second: 2 }, DuplicateKey { first: 0, second: 4 }];
    assert_eq!(KeyTable::build(keys).err().as_deref(), Some(&expected[..]));
}

#[test]
fn a_scope_takes_its_paths_and_no_others() {
    let vectors = [
        ("*", "POST", "/a/b", true),
        ("GET *", "GET", "/", true),
        ("GET *", "HEAD", "/a", true),
        ("GET *", "POST", "/a", false),
        ("GET *", "get", "/a", false),
        ("POST *", "HEAD", "/a", false),
        ("/api/*", "GET", "/api/x/y", true),
        ("/api/*", "GET", "/api", true),
        ("/api/*", "GET", "/apis", false),
        ("/api*", "GET", "/apis/x", true),
        ("/api*", "GET", "/ap", false),
        ("/api", "GET", "/api", true),
        ("/api", "GET", "/api/x", false),
        ("/", "GET", "/", true),
        ("/", "GET", "/a", false),
        ("/*", "GET", "/", true),
        ("/users/:id", "GET", "/users/7", true),
        ("/users/{id}/profile", "GET", "/users/7/profile", true),
        ("/users/:id", "GET", "/users/7/profile", false),
        ("/users/:id", "GET", "/users", false),
        ("/users/:id/*", "GET", "/users/7/profile", true),
        ("/users/:id/*", "GET", "/users/7", true),
        ("/users/:id/*", "GET", "/users", false),
        ("/caf%c3%a9/%40me", "GET", "/caf%C3%A9/@me", true),
        ("/api/*", "OPTIONS", "*", false),
        ("*", "OPTIONS", "*", true),
    ];
    for (text, method, path, expected) in vectors {
        assert_eq!(permits(&[text], method, path), expected, "{text} on {method} {path}");
    }
    assert!(permits(&["/a", "/b"], "GET", "/b"));
    assert!(!permits(&[], "GET", "/b"), "an empty list is no route at all");
}

#[test]
fn an_escaped_star_colon_or_brace_never_widens_a_scope() {
    let vectors = [
        ("/files/%2A", "/files/*", "/files/a"),
        ("/files/%2arest", "/files/*rest", "/files/a/b"),
        ("/users/%3Aid", "/users/:id", "/users/7"),
        ("/users/%7Bid%7D", "/users/{id}", "/users/7"),
        ("/files/%2A*", "/files/*a", "/files/a"),
        ("/files/%3Aid/*", "/files/:id/a", "/files/7/a"),
    ];
    for (text, taken, not_taken) in vectors {
        assert!(permits(&[text], "GET", taken), "{text} on {taken}");
        assert!(!permits(&[text], "GET", not_taken), "{text} on {not_taken}");
    }
}

#[test]
fn a_key_may_be_bound_to_addresses() {
    let allow_ips = Some(vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
    let table = KeyTable::build(vec![NewKey { allow_ips, ..key("K", 0) }]).unwrap();
    let Identity::Known(index) = table.identify(&present("K"), Timestamp(0)) else { panic!("the key is known") };
    let record = table.record(index);
    let permits = |address: &str| record.permits("GET", "/", address.parse().unwrap());
    assert!(permits("203.0.113.9") && permits("::ffff:203.0.113.9") && permits("2001:db8::1"));
    assert!(!permits("203.0.114.9") && !permits("2001:db9::1"));
}

#[test]
fn a_record_stays_small() {
    assert!(size_of::<KeyRecord>() <= 80, "{}", size_of::<KeyRecord>());
}

proptest! {
    #[test]
    fn every_key_of_a_table_is_found_and_no_other(
        secrets in prop::collection::hash_set("[a-z]{1,4}", 0..50),
        other in "[a-z]{1,4}",
    ) {
        let secrets: Vec<String> = secrets.into_iter().collect();
        let keys = secrets.iter().enumerate().map(|(consumer, secret)| key(secret, consumer)).collect();
        let table = KeyTable::build(keys).unwrap();
        for (consumer, secret) in secrets.iter().enumerate() {
            prop_assert_eq!(identified(&table, secret, 0), Ok(consumer));
        }
        prop_assert_eq!(identified(&table, &other, 0).is_ok(), secrets.contains(&other));
    }

    #[test]
    fn no_scope_and_no_path_make_it_fail(text in "(/(:[a-z]|[a-z%A-F0-9]{0,3})){1,4}[*]?", path in "[ -~]{0,20}") {
        if let Ok(scope) = pattern::key(&text) {
            let scope = KeyScope::new(&scope);
            let _ = scope.takes("GET", &path);
        }
        prop_assert!(permits(&["*"], "GET", &path));
    }
}
