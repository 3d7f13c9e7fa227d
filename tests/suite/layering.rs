//! Several limits on one request: all are charged or none is.

use crate::support::fields::left_of;
use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

/// Asks at about 60 a second for a while and gives how many passed and what the day has left at the end.
fn hammer(gateway: &Gateway, key: &str, day: &[&str]) -> (i64, Vec<i64>) {
    let start = Instant::now();
    let bearer = format!("Bearer {key}");
    let (mut accepted, mut client) = (0, gateway.connect());
    loop {
        let answer = client.request("GET", "/", &[("authorization", &bearer)], b"");
        accepted += i64::from(answer.status == 200);
        if start.elapsed() > Duration::from_millis(1500) {
            return (accepted, day.iter().map(|limit| left_of(&answer, limit)).collect());
        }
        thread::sleep(Duration::from_millis(16));
    }
}

const IETF: &str = "[headers]\ndialect = \"ietf\"\n";
const DAY: &str = "name = \"day\", rate = \"1000/day\", algorithm = \"fixed_window\"";
const SECOND: &str = "name = \"second\", rate = \"2/s\"";

#[test]
fn b14_what_one_limit_refuses_costs_nothing_on_another_in_any_order() {
    for (first, second) in [(DAY, SECOND), (SECOND, DAY)] {
        let tier = format!("[tiers.free]\nlimits = [{{ {first} }}, {{ {second} }}]\n{IETF}");
        let gateway = Setup::new(tier).keys(&consumer("acme", "free")).start();
        let (accepted, left) = hammer(&gateway, &key_of("acme"), &["day"]);
        assert!((2..=6).contains(&accepted), "{accepted}");
        assert_eq!(left, [1000 - accepted], "{first} then {second}");
    }
}

#[test]
fn b14_layers_are_charged_all_or_none() {
    let day = |name: &str| format!("limits = [{{ name = \"{name}\", rate = \"1000/day\" }}]\n");
    let toml = format!(
        "{IETF}[tiers.free]\n{}[[routes]]\nmatch = \"*\"\nlimits = [{{ {SECOND} }}]\n\
         [[limits]]\nname = \"custom-day\"\nper = \"global\"\nrate = \"1000/day\"\n",
        day("key-day")
    );
    let gateway = Setup::new(toml).client_ip(&day("ip-day")).keys(&consumer("acme", "free")).start();
    let (accepted, left) = hammer(&gateway, &key_of("acme"), &["ip-day", "key-day", "custom-day"]);
    assert_eq!(left, [1000 - accepted; 3]);
}

#[test]
fn b102_a_shadow_limit_neither_refuses_nor_hides_what_comes_after_it() {
    let shadow = r#"name = "tried", rate = "1/h", mode = "shadow""#;
    let gateway = Setup::limited(&[shadow, r#"name = "real", rate = "5/h""#]).start();
    let first = gateway.get("/");
    assert_eq!((first.limit(), first.remaining()), (5, 4));
    assert_eq!(first.one("ratelimit-policy"), "5;w=3600", "a shadow limit shows nowhere");
    assert_eq!(gateway.statuses(7, "/"), [200, 200, 200, 200, 429, 429, 429]);
    let counted = |limit, result| gateway.metric("sluicegate_decisions_total", &[("limit", limit), ("result", result)]);
    assert!(counted("tried", "shadow_rejected") >= 4.0);
    assert_eq!((counted("tried", "rejected"), counted("real", "rejected")), (0.0, 3.0));
}

#[test]
fn b103_callers_without_a_key_are_told_apart_by_address() {
    let setup = Setup::new("[tiers.free]\n[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"2/h\" }]\n").trusted();
    let gateway = setup.keys(&format!("{}{}", consumer("k1", "free"), consumer("k2", "free"))).start();
    for address in ["203.0.113.1", "203.0.113.2"] {
        assert_eq!([0; 3].map(|_| gateway.get_from(address, "/").status), [200, 200, 429], "{address}");
    }
    for name in ["k1", "k2"] {
        assert_eq!([0; 3].map(|_| gateway.get_as(&key_of(name), "/").status), [200, 200, 429], "{name}");
    }
}

#[test]
fn b103_the_anonymous_tier_counts_by_address() {
    let gateway = Setup::new("[tiers.anonymous]\nlimits = [{ rate = \"1/h\" }]\n").trusted().start();
    let statuses = ["203.0.113.1", "203.0.113.1", "203.0.113.2"].map(|from| gateway.get_from(from, "/").status);
    assert_eq!(statuses, [200, 429, 200]);
}

#[test]
fn b103_an_absent_header_is_one_counter_and_values_are_taken_whole() {
    let limit = "[[limits]]\nname = \"tenant\"\nper = \"header:x-tenant\"\nrate = \"1/h\"\n";
    let gateway = Setup::new(limit).trusted().start();
    assert_eq!(["203.0.113.1", "203.0.113.2"].map(|from| gateway.get_from(from, "/").status), [200, 429]);
    assert_eq!(gateway.get_with("/", &[("x-tenant", "")]).status, 429, "absent is the empty value");
    let values = ["a", " a ", "A", "a,b"].map(|value| gateway.get_with("/", &[("x-tenant", value)]).status);
    assert_eq!(values, [200, 429, 200, 200]);
    let joined = gateway.get_with("/", &[("x-tenant", "a"), ("x-tenant", "b")]).status;
    assert_eq!(joined, 429, "lines are joined by a comma");
    let long = "x".repeat(3000);
    let tails = ["1", "2"].map(|tail| gateway.get_with("/", &[("x-tenant", &format!("{long}{tail}"))]).status);
    assert_eq!(tails, [200, 200], "a long value is not cut");
}

#[test]
fn layers_that_a_route_skips_are_not_applied_there() {
    let toml = "[tiers.anonymous]\nlimits = [{ rate = \"2/h\" }]\n\
                [[routes]]\nmatch = \"/free\"\nskip = [\"ip\", \"key\"]\n[[routes]]\nmatch = \"*\"\n";
    let gateway = Setup::new(toml).client_ip("limits = [{ rate = \"1/h\" }]").start();
    assert_eq!(gateway.statuses(4, "/free"), [200; 4]);
    assert_eq!(gateway.statuses(2, "/other"), [200, 429]);
    assert_eq!(gateway.statuses(2, "/free/../other"), [429, 429]);
    assert_eq!(gateway.get("/free").status, 200);
}

#[test]
fn a_limit_may_be_for_certain_tiers_only_and_shared_by_all() {
    let toml = "[tiers.free]\n[tiers.pro]\n[[routes]]\nmatch = \"*\"\nlimits = [\
                { name = \"free-only\", rate = \"1/h\", tiers = [\"free\"] }, \
                { name = \"all\", rate = \"4/h\", per = \"route\" }]\n";
    let gateway = Setup::new(toml).keys(&format!("{}{}", consumer("f", "free"), consumer("p", "pro"))).start();
    let ask = |name: &str| gateway.get_as(&key_of(name), "/").status;
    assert_eq!([ask("f"), ask("f"), ask("p"), ask("p"), ask("p"), ask("p")], [200, 429, 200, 200, 200, 429]);
}

#[test]
fn a_consumers_own_limits_replace_those_of_the_tier() {
    let own =
        keys::consumer_with("acme", "free", "limits = [{ rate = \"3/h\" }]", &keys::key("k", &key_of("acme"), ""));
    let gateway = Setup::new("[tiers.free]\nlimits = [{ rate = \"1/h\" }]\n").keys(&own).start();
    assert_eq!([0; 4].map(|_| gateway.get_as(&key_of("acme"), "/").status), [200, 200, 200, 429]);
}

#[test]
fn a_limit_with_conditions_applies_only_where_all_hold() {
    let when =
        r#"when = { "header:x-dev" = "true", method = ["POST"], host = ["a.example.com"], ip = ["203.0.113.0/24"] }"#;
    let gateway = Setup::limited(&[&format!("rate = \"1/h\", {when}")]).trusted().start();
    let ask = |method: &str, dev: &str, host: &str, from: &str| {
        gateway.request(method, "/", &[("x-dev", dev), ("host", host), ("x-forwarded-for", from)], b"").status
    };
    let all = || ask("POST", "true", "a.example.com", "203.0.113.1");
    assert_eq!([all(), all()], [200, 429]);
    let others = [
        ("GET", "true", "a.example.com", "203.0.113.1"),
        ("POST", "false", "a.example.com", "203.0.113.1"),
        ("POST", "true", "b.example.com", "203.0.113.1"),
        ("POST", "true", "a.example.com", "198.51.100.1"),
    ];
    for (method, dev, host, from) in others {
        assert_eq!([0; 2].map(|_| ask(method, dev, host, from)), [200, 200], "{method} {dev} {host} {from}");
    }
}

#[test]
fn each_scope_splits_by_what_it_names() {
    let scopes = [
        ("\"global\"", ["/a/1", "/b/1"], [200, 429]),
        ("\"route\"", ["/a/1", "/b/1"], [200, 200]),
        ("\"route\"", ["/a/1", "/a/2"], [200, 429]),
        ("\"param:id\"", ["/a/1", "/a/2"], [200, 200]),
        ("\"param:id\"", ["/a/1", "/b/1"], [200, 429]),
        ("[\"route\", \"param:id\"]", ["/a/1", "/b/1"], [200, 200]),
    ];
    for (per, paths, statuses) in scopes {
        let toml = format!(
            "[[routes]]\nmatch = \"/a/:id\"\n[[routes]]\nmatch = \"/b/{{id}}\"\n\
             [[limits]]\nname = \"l\"\nper = {per}\nrate = \"1/h\"\n"
        );
        let gateway = Setup::new(toml).start();
        assert_eq!(paths.map(|path| gateway.get(path).status), statuses, "{per} {paths:?}");
    }
}

#[test]
fn methods_hosts_and_tiers_are_scopes_too() {
    let limit =
        |per: &str| Setup::new(format!("[[limits]]\nname = \"l\"\nper = \"{per}\"\nrate = \"1/h\"\n[tiers.free]\n"));
    let gateway = limit("method").start();
    assert_eq!(["GET", "GET", "POST"].map(|method| gateway.request(method, "/", &[], b"").status), [200, 429, 200]);
    let gateway = limit("host").start();
    assert_eq!(
        ["a.test", "A.TEST:80", "b.test"].map(|host| gateway.get_with("/", &[("host", host)]).status),
        [200, 429, 200]
    );
    let gateway = limit("tier").keys(&consumer("acme", "free")).start();
    assert_eq!(
        [gateway.get("/").status, gateway.get("/").status, gateway.get_as(&key_of("acme"), "/").status],
        [200, 429, 200]
    );
}
