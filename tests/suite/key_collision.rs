//! Two identities never share a counter, however alike they are written.

use crate::support::keys::{consumer_with, key};
use crate::support::*;

#[test]
fn b65_identities_of_different_kinds_never_share_a_counter() {
    let names = ["127.0.0.1", "a:b", "a", "ip", "ip:127.0.0.1"];
    let consumers: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let entry = key(name, &key_of(&format!("k{index}")), "");
            consumer_with(&format!("\"{name}\""), "free", "", &entry)
        })
        .collect();
    let routes = ["/b:c", "/c"].map(|path| format!("[[routes]]\nmatch = \"{path}\"\n{}", limits_of(path))).concat();
    let gateway = Setup::new(format!("[tiers.free]\n{routes}")).keys(&consumers).start();
    for path in ["/b:c", "/c"] {
        for (index, name) in names.iter().enumerate() {
            let statuses = [0; 3].map(|_| gateway.get_as(&key_of(&format!("k{index}")), path).status);
            assert_eq!(statuses, [200, 200, 429], "{name} on {path}");
        }
        let anonymous = [0; 3].map(|_| gateway.get(path).status);
        assert_eq!(anonymous, [200, 200, 429], "the address on {path}");
    }
}

fn limits_of(path: &str) -> String {
    format!("limits = [{{ name = \"{}\", rate = \"2/h\" }}]\n", path.replace(['/', ':'], "x"))
}

#[test]
fn b65_parts_of_one_counter_do_not_run_into_each_other() {
    let limit = "[[limits]]\nname = \"pair\"\nper = [\"header:x-a\", \"header:x-b\"]\nrate = \"1/h\"\n";
    let gateway = Setup::new(limit).start();
    let pairs =
        [("a", "bc"), ("ab", "c"), ("a:b", "c"), ("a", "b:c"), ("a,b", "c"), ("", "abc"), ("abc", ""), ("{a}", "b")];
    for (a, b) in pairs {
        let statuses = [0; 2].map(|_| gateway.get_with("/", &[("x-a", a), ("x-b", b)]).status);
        assert_eq!(statuses, [200, 429], "{a:?} and {b:?}");
    }
}

#[test]
fn b124_keys_that_begin_alike_are_different_keys() {
    let secrets: Vec<String> = (1..=9).map(|n| format!("live_{}{n}", "A".repeat(40))).collect();
    let consumers: String = secrets
        .iter()
        .enumerate()
        .map(|(index, secret)| consumer_with(&format!("c{index}"), "free", "", &key(&format!("k{index}"), secret, "")))
        .collect();
    let gateway = Setup::new("[tiers.free]\nlimits = [{ rate = \"2/h\" }]\n").keys(&consumers).start();
    for secret in &secrets {
        assert_eq!([0; 3].map(|_| gateway.get_as(secret, "/").status), [200, 200, 429], "{secret}");
    }
}

#[test]
fn b124_overlong_keys_are_refused_or_told_apart() {
    let secrets = ["1", "2"].map(|end| format!("{}{end}", "k".repeat(8191)));
    let keys = key("long", &secrets[0], "");
    let setup = Setup::new("[tiers.free]\nlimits = [{ rate = \"2/h\" }]\n");
    let gateway = setup.keys(&consumer_with("acme", "free", "", &keys)).start();
    let statuses = secrets.map(|secret| gateway.get_as(&secret, "/").status);
    assert!(matches!(statuses[0], 200 | 400 | 401 | 431), "{statuses:?}");
    assert!(matches!(statuses[1], 400 | 401 | 431), "a key that differs in its last byte passed: {statuses:?}");
}
