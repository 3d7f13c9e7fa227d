//! What the rate-limit fields say, in every dialect.

use crate::support::fields::{items, parameter};
use crate::support::*;
use std::collections::HashSet;
use std::time::Duration;

const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];
const CLASSIC: [&str; 4] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy"];
const X: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// No rate-limit field twice, none negative.
fn assert_sane(answer: &Response) {
    let mut seen = HashSet::new();
    for (name, value) in &answer.headers {
        let name = name.to_ascii_lowercase();
        if name.contains("ratelimit") || name.starts_with("retry-after") {
            assert!(seen.insert(name.clone()), "{name} stands twice");
            let words = matches!(name.as_str(), "ratelimit" | "ratelimit-policy");
            assert!(words || value.bytes().all(|byte| byte.is_ascii_digit()), "{name}: {value}");
        }
    }
}

#[test]
fn b56_the_reset_is_never_zero_while_nothing_is_left() {
    for algorithm in AT_ONCE {
        let gateway = Setup::limited(&[&format!("algorithm = \"{algorithm}\", rate = \"2/h\"")]).start();
        for answer in [0; 4].map(|_| gateway.get("/")) {
            let reset = answer.reset_in();
            assert!(answer.remaining() > 0 || reset > 0, "{algorithm}: {answer:?}");
            assert!(reset <= 7200, "{algorithm}: {reset}");
        }
    }
}

#[test]
fn b56_a_fixed_window_resets_at_its_end() {
    let gateway = Setup::limited(&[r#"algorithm = "fixed_window", rate = "2/h""#]).start();
    for answer in [0; 3].map(|_| gateway.get("/")) {
        let left = 3600 - (epoch_ms() / 1000 % 3600) as i64;
        assert!((answer.reset_in() - left).abs() <= 2, "{} of {left}", answer.reset_in());
    }
}

#[test]
fn b58_single_fields_show_the_tightest_limit() {
    let tier = "[tiers.free]\nlimits = [\
                { name = \"short\", rate = \"3/600ms\", algorithm = \"sliding_window_log\" }, \
                { name = \"long\", rate = \"8/h\" }]\n";
    let setup = Setup::new(tier).client_ip("limits = [{ name = \"per-ip\", rate = \"100/h\" }]");
    let gateway = setup.keys(&consumer("acme", "free")).start();
    let ask = || gateway.get_as(&key_of("acme"), "/");
    let first = ask();
    assert_eq!((first.limit(), first.remaining()), (3, 2));
    assert_eq!(first.one("ratelimit-policy"), "100;w=3600, 3, 8;w=3600");
    assert_eq!([ask(), ask()].map(|answer| answer.status), [200; 2]);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!([ask(), ask(), ask()].map(|answer| answer.status), [200; 3]);
    std::thread::sleep(Duration::from_millis(700));
    let seventh = ask();
    assert_eq!((seventh.limit(), seventh.remaining()), (8, 1), "now the long one is the tighter");
    assert_eq!(ask().remaining(), 0);
    let refused = ask();
    assert_eq!((refused.status, refused.limit(), refused.json()["policy"].as_str()), (429, 8, Some("long")));
}

#[test]
fn b58_with_equal_remaining_the_longer_window_is_shown() {
    let gateway = Setup::limited(&[r#"name = "a", rate = "5/min""#, r#"name = "b", rate = "5/h""#]).start();
    assert!(gateway.get("/").one("ratelimit-policy").contains("5;w=60, 5;w=3600"));
    assert!(gateway.get("/").reset_in() > 60 || epoch_ms() / 1000 % 3600 >= 3535);
}

#[test]
fn b82_fields_of_the_upstream_are_replaced_and_its_own_429_passes() {
    let gateway = Setup::limited(&[r#"rate = "10/h""#]).before_script(|request| {
        let headers = [
            ("X-RateLimit-Limit", "7"),
            ("X-RateLimit-Remaining", "3"),
            ("RateLimit", "\"theirs\";r=3"),
            ("RateLimit-Policy", "\"theirs\";q=7"),
            ("RateLimit-Limit", "7"),
            ("RateLimit-Limit", "8"),
            ("Retry-After", "9"),
        ];
        let status = if request.target == "/429" { 429 } else { 200 };
        Reply::status(status, &headers, "theirs")
    });
    let passed = gateway.get("/");
    for name in CLASSIC.into_iter().chain(X) {
        assert!(!passed.one(name).contains("theirs"), "{name}");
    }
    assert_eq!((passed.limit(), passed.number("x-ratelimit-limit")), (10, 10));
    assert!(!passed.header("ratelimit").is_some_and(|value| value.contains("theirs")));
    let theirs = gateway.get("/429");
    assert_eq!((theirs.status, theirs.text().as_str(), theirs.retry_after()), (429, "theirs", 9));
    assert_eq!(gateway.metric("rate_limit_checks_total", &[("result", "rejected")]), 0.0);
}

#[test]
fn b82_fields_of_the_upstream_pass_where_no_limit_applies() {
    let gateway = Setup::default().before_script(|_| Reply::status(200, &[("X-RateLimit-Limit", "7")], "ok"));
    assert_eq!(gateway.get("/").one("x-ratelimit-limit"), "7");
}

#[test]
fn b93_every_field_stands_once_and_is_never_negative() {
    for dialect in ["classic", "ietf", "both"] {
        let gateway =
            Setup::limited(&[r#"rate = "10/h""#]).toml(&format!("[headers]\ndialect = \"{dialect}\"")).start();
        for _ in 0..15 {
            assert_sane(&gateway.get("/"));
        }
    }
}

#[test]
fn each_dialect_shows_its_fields_and_no_others() {
    let vectors: [(&str, &str, &[&str], &[&str]); 5] = [
        ("classic", "true", &[CLASSIC[0], CLASSIC[1], CLASSIC[2], CLASSIC[3], X[0]], &["ratelimit"]),
        ("ietf", "true", &["ratelimit", "ratelimit-policy", X[1]], &CLASSIC[..3]),
        ("both", "true", &["ratelimit", "ratelimit-policy", CLASSIC[0], CLASSIC[1], CLASSIC[2], X[2]], &[]),
        ("off", "true", &X, &["ratelimit", CLASSIC[0], CLASSIC[1], CLASSIC[2], CLASSIC[3]]),
        ("classic", "false", &CLASSIC, &X),
    ];
    for (dialect, x, present, absent) in vectors {
        let headers = format!("[headers]\ndialect = \"{dialect}\"\nx_ratelimit = {x}");
        let gateway = Setup::limited(&[r#"name = "l", rate = "1/h""#]).toml(&headers).start();
        for answer in [gateway.get("/"), gateway.get("/")] {
            assert!(present.iter().all(|name| answer.has(name)), "{dialect}: {answer:?}");
            assert!(!absent.iter().any(|name| answer.has(name)), "{dialect}: {answer:?}");
        }
    }
}

#[test]
fn the_ietf_fields_parse_and_name_every_limit() {
    let bucket = r#"name = "bucket", algorithm = "token_bucket", rate = "600/min", burst = 100"#;
    let gateway =
        Setup::limited(&[r#"name = "minute", rate = "100/min""#, bucket, r#"name = "odd", rate = "9/1500ms""#])
            .toml("[headers]\ndialect = \"ietf\"")
            .start();
    let answer = gateway.get("/");
    let names = |field: &str| items(&answer, field).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("ratelimit-policy"), ["minute", "bucket", "odd"]);
    assert_eq!(names("ratelimit"), ["minute", "bucket", "odd"]);
    assert_eq!(parameter(&answer, "ratelimit-policy", "minute", "q"), 100);
    assert_eq!(parameter(&answer, "ratelimit-policy", "minute", "w"), 60);
    assert_eq!(parameter(&answer, "ratelimit", "minute", "r"), 99);
    assert!((0..=60).contains(&parameter(&answer, "ratelimit", "minute", "t")));
    assert!(!answer.one("ratelimit-policy").contains("\"odd\";q=9;w"), "a window of 1.5 s has no w");
}

#[test]
fn the_classic_policy_lists_windows_and_bursts_in_order() {
    let toml = "[tiers.free]\nlimits = [{ rate = \"100/min\" }]\n[[routes]]\nmatch = \"*\"\n\
                limits = [{ algorithm = \"token_bucket\", rate = \"600/min\", burst = 100 }]\n\
                [[limits]]\nname = \"z\"\nper = \"global\"\nrate = \"1000/day\"\n";
    let setup = Setup::new(toml).client_ip("limits = [{ rate = \"20/s\" }]").keys(&consumer("acme", "free"));
    let gateway = setup.start();
    let answer = gateway.get_as(&key_of("acme"), "/");
    assert_eq!(answer.one("ratelimit-policy"), "20;w=1, 100;w=60, 600;w=60;burst=100, 1000;w=86400");
}

#[test]
fn on_a_refusal_every_field_names_the_same_moment() {
    for reset in ["epoch", "delta"] {
        let headers = format!("[headers]\ndialect = \"both\"\nreset = \"{reset}\"");
        let limits =
            [r#"name = "short", rate = "1/min""#, r#"name = "long", rate = "1/h", algorithm = "token_bucket""#];
        let gateway = Setup::limited(&limits).toml(&headers).start();
        gateway.get("/");
        let refused = gateway.get("/");
        let wait = refused.retry_after();
        let shown = if reset == "epoch" { refused.reset_in() } else { refused.number("ratelimit-reset") };
        assert!((shown - wait).abs() <= i64::from(reset == "epoch"), "{reset}: {shown} for {wait}");
        assert_eq!(refused.number("ratelimit-reset"), refused.number("x-ratelimit-reset"));
        assert_eq!(parameter(&refused, "ratelimit", "long", "t"), wait);
        assert_eq!(refused.json()["retry_after_seconds"], wait);
        assert_eq!(refused.json()["policy"], "long", "the longest wait of those that refuse");
    }
}

#[test]
fn limit_fields_stand_on_every_status_that_had_limits() {
    let gateway = Setup::limited(&[r#"rate = "50/h""#]).before_script(|request| {
        let status = request.target[1..].parse().unwrap_or(200);
        Reply::status(status, &[], if status == 204 || status == 304 { "" } else { "x" })
    });
    for status in [200, 201, 302, 404, 500, 503] {
        let answer = gateway.get(&format!("/{status}"));
        assert_eq!((answer.status, answer.has("ratelimit-remaining")), (status, true), "{status}");
    }
}

#[test]
fn limits_that_are_not_exposed_show_nowhere_but_still_refuse() {
    let limits = [r#"name = "secret", rate = "1/h", expose = false"#, r#"name = "open", rate = "9/h""#];
    let gateway = Setup::limited(&limits).start();
    let passed = gateway.get("/");
    assert_eq!((passed.limit(), passed.one("ratelimit-policy")), (9, "9;w=3600"));
    let refused = gateway.get("/");
    assert_eq!(refused.status, 429);
    assert!(refused.retry_after() >= 1);
    let body = refused.json();
    assert!(!refused.text().contains("secret") && body.get("limit").is_none(), "{body}");
    assert_eq!((body["error"].as_str(), body.get("policy")), (Some("rate_limit_exceeded"), None));
}
