//! Queries: finding, removing, masking.

use super::*;
use proptest::prelude::*;

fn found(query: &str, name: &str) -> Vec<String> {
    values(query.as_bytes(), name).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
}

#[test]
fn a_parameter_is_found_by_its_decoded_name() {
    assert_eq!(found("a=1&api_key=K&b=2", "api_key"), ["K"]);
    assert_eq!(found("api%5Fkey=K&API_KEY=L&%61pi_key=M", "api_key"), ["K", "M"]);
    assert_eq!(found("api_key&api_key=", "api_key"), ["", ""]);
    assert_eq!(found("x+y=1&x%20y=2", "x y"), ["1", "2"]);
    assert_eq!(found("", "api_key"), [""; 0]);
    assert_eq!(found("my_api_key=1&api_key2=1&api_ke=1", "api_key"), [""; 0]);
    assert_eq!(found("k==a=b", "k"), ["=a=b"]);
}

#[test]
fn values_are_decoded_once_and_keep_their_plus() {
    assert_eq!(decoded(b"a%2Bb+c%2525").as_deref(), Some(&b"a+b+c%25"[..]));
    assert!(matches!(decoded(b"plain"), Some(Cow::Borrowed(_))));
    for broken in ["%", "a%4", "%zz"] {
        assert_eq!(decoded(broken.as_bytes()), None, "{broken}");
    }
}

#[test]
fn removing_a_parameter_leaves_the_rest_as_it_was() {
    let removed = |query: &str, names: &[&str]| without(query.as_bytes(), names).map(|q| String::from_utf8(q).unwrap());
    assert_eq!(removed("a=%31&api_key=K&b=+&&c", &["api_key"]).as_deref(), Some("a=%31&b=+&&c"));
    assert_eq!(removed("api%5fkey=K&a=1", &["api_key"]).as_deref(), Some("a=1"));
    assert_eq!(removed("api_key=K", &["api_key"]).as_deref(), Some(""));
    assert_eq!(removed("k=1&a=1&l=2&k=3", &["k", "l"]).as_deref(), Some("a=1"));
    assert_eq!(removed("a=1&b=2", &["api_key"]), None);
    assert_eq!(removed("", &["api_key"]), None);
}

#[test]
fn b40_a_masked_query_shows_no_value() {
    let vectors = [
        ("api_key=SECRET123&page=2", "api_key=***&page=***"),
        ("SECRET123", "***"),
        ("a=1;api_key=SECRET123", "a=***"),
        ("a%0Ab=1&\"=2&filter[x]=3", "***&***&filter[x]=***"),
        ("a=1&&b=2&", "a=***&&b=***&"),
        ("", ""),
    ];
    for (query, expected) in vectors {
        assert_eq!(masked(query.as_bytes()), expected, "{query}");
    }
    assert_eq!(masked(b"\xff=1&x=\xff"), "***&x=***");
    assert!(masked("a=1&".repeat(1000).as_bytes()).len() < 300);
}

proptest! {
    #[test]
    fn no_query_makes_it_fail(query in prop::collection::vec(any::<u8>(), 0..60)) {
        let shown = masked(&query);
        prop_assert!(shown.bytes().all(|byte| byte >= b' '));
        if let Some(rest) = without(&query, &["k", ""]) {
            prop_assert_eq!(values(&rest, "k").count(), 0);
        }
        for value in values(&query, "k") {
            let _ = decoded(value);
        }
    }

    #[test]
    fn a_secret_value_is_never_shown(before in "[a-z=&]{0,10}", after in "[a-z=&]{0,10}") {
        let shown = masked(format!("{before}&key=SECRET123&{after}").as_bytes());
        prop_assert!(!shown.contains("SECRET"));
    }
}
