//! Reading and resetting one caller's counters, on every store, by the API and by the command.

use crate::support::client::Response;
use crate::support::program::{self, Finished};
use crate::support::redis::{RedisCluster, RedisServer};
use crate::support::*;
use serde_json::{Value, json};

/// A limit on each layer, every algorithm, and one that all callers share.
const LAYERS: &str = r#"
[tiers.free]
limits = [
  { name = "free-hour", rate = "9/h" },
  { name = "free-bucket", algorithm = "token_bucket", rate = "9/h", burst = 5 },
]
[tiers.anonymous]
limits = [{ name = "guest-day", rate = "9/day", algorithm = "fixed_window" }]
[[routes]]
match = "GET /a/:id"
limits = [{ name = "a-log", rate = "9/h", algorithm = "sliding_window_log" }]
[[routes]]
match = "*"
limits = [{ name = "rest-hour", rate = "3/h" }]
[[limits]]
name = "by-method"
rate = "9/h"
per = ["method", "subject"]
[[limits]]
name = "by-tenant"
rate = "9/h"
per = ["subject", "header:x-tenant"]
[[limits]]
name = "everybody"
rate = "900/h"
per = "global"
"#;

fn setup(store: &str) -> Setup {
    let ip = "limits = [{ name = \"per-ip\", rate = \"90/h\" }]";
    let setup = Setup::new(format!("{LAYERS}{store}")).trusted().client_ip(ip);
    setup.keys(&consumer("acme", "free")).keys(&consumer("other", "free"))
}

/// The store of one Redis. Generous, because the machine that runs this is busy.
fn redis(server: &RedisServer) -> String {
    format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"2s\"\n", server.url())
}

fn ask(gateway: &Gateway, method: &str, query: &str) -> Response {
    Client::connect(gateway.files.admin).request(method, &format!("/api/v1/limits?{query}"), &[], b"")
}

#[track_caller]
fn show(gateway: &Gateway, query: &str) -> Value {
    let answer = ask(gateway, "GET", query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[track_caller]
fn reset(gateway: &Gateway, query: &str) -> Value {
    let answer = ask(gateway, "DELETE", query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Name and what is used, of each counter that something was charged to.
fn used(shown: &Value) -> Vec<(String, f64)> {
    let lines = shown["limits"].as_array().unwrap().iter().filter(|line| line["used"].as_f64() != Some(0.0));
    let mut used: Vec<_> =
        lines.map(|line| (line["limit"].as_str().unwrap().to_owned(), line["used"].as_f64().unwrap())).collect();
    used.sort_by(|one, other| one.0.cmp(&other.0));
    used
}

fn pairs(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
    expected.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect()
}

/// What must hold on every store.
fn reads_and_resets_one_caller(gateway: &Gateway) {
    let acme = key_of("acme");
    for target in ["/a/1", "/x", "/x", "/x", "/x"] {
        gateway.get_as(&acme, target);
    }
    gateway.get_as(&key_of("other"), "/x");
    gateway.get_from("203.0.113.7", "/x");
    let charged = [
        ("a-log", 1.0),
        ("by-method", 4.0),
        ("by-tenant", 4.0),
        ("free-bucket", 4.0),
        ("free-hour", 4.0),
        ("rest-hour", 3.0),
    ];
    let by_name = show(gateway, "consumer=acme");
    assert_eq!(by_name["caller"], json!({"consumer": "acme", "tier": "free"}));
    // The bucket has refilled a little since.
    let round =
        |lines: Vec<(String, f64)>| lines.into_iter().map(|(name, used)| (name, used.ceil())).collect::<Vec<_>>();
    assert_eq!(round(used(&by_name)), pairs(&charged));
    assert_eq!(round(used(&show(gateway, "key_id=acme-key"))), pairs(&charged));
    assert_eq!(round(used(&show(gateway, "consumer=acme"))), pairs(&charged), "reading takes nothing");
    assert_eq!(by_name["open"], json!([{"limit": "by-tenant", "not_said": ["header:x-tenant"]}]));
    assert_eq!(gateway.get_as(&acme, "/x").status, 429);

    let done = reset(gateway, "consumer=acme");
    assert_eq!(done["reset"].as_array().unwrap().len(), 6, "{done}");
    assert_eq!(gateway.get_as(&acme, "/x").status, 200, "free at once");
    assert_eq!(round(used(&show(gateway, "consumer=other"))).len(), 5, "others keep theirs");
    let guest = [("by-method", 1.0), ("by-tenant", 1.0), ("guest-day", 1.0), ("per-ip", 1.0), ("rest-hour", 1.0)];
    assert_eq!(used(&show(gateway, "ip=203.0.113.7")), pairs(&guest));
    assert_eq!(reset(gateway, "ip=203.0.113.7")["reset"].as_array().unwrap().len(), 5);
    assert!(used(&show(gateway, "ip=203.0.113.7")).is_empty());
    assert_eq!(reset(gateway, "ip=203.0.113.7")["reset"], json!([]), "there is nothing left to reset");

    gateway.get_with("/a/1", &[("authorization", &format!("Bearer {acme}")), ("x-tenant", "a/b")]);
    let said = show(gateway, "consumer=acme&header:x-tenant=a%2Fb");
    assert_eq!(said["open"], json!([]));
    assert!(used(&said).contains(&("by-tenant".to_owned(), 1.0)), "{said}");
}

#[test]
fn counters_are_read_and_reset_in_memory() {
    let gateway = setup("").start();
    reads_and_resets_one_caller(&gateway);
    let log = gateway.log();
    let audit: Vec<&str> = log.lines().filter(|line| line.contains("counters were reset")).collect();
    assert_eq!(audit.len(), 3, "{log}");
    assert!(audit[0].contains("127.0.0.1:") && audit[0].contains("acme"), "{}", audit[0]);
    assert!(audit[1].contains("203.0.113.7"), "{}", audit[1]);
}

#[test]
fn counters_are_read_and_reset_in_redis() {
    let server = RedisServer::start();
    reads_and_resets_one_caller(&setup(&redis(&server)).start());
}

#[test]
fn counters_are_read_and_reset_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"10s\"\n{}", cluster.toml());
    reads_and_resets_one_caller(&setup(&store).start());
}

#[test]
fn a_reset_frees_the_caller_on_every_gateway_within_what_a_refusal_is_remembered() {
    let server = RedisServer::start();
    let [one, other] = [(); 2].map(|()| setup(&redis(&server)).start());
    let acme = key_of("acme");
    let refuse = || becomes_true(PATIENCE, || one.get_as(&acme, "/x").status == 429);
    for round in 0..5 {
        assert!(refuse());
        assert_eq!(other.get_as(&acme, "/x").status, 429, "both remember the refusal");
        reset(&one, "consumer=acme");
        assert_eq!(one.get_as(&acme, "/x").status, 200, "round {round}: at once where it was asked for");
        let start = std::time::Instant::now();
        assert!(becomes_true(PATIENCE, || other.get_as(&acme, "/x").status == 200), "round {round}");
        // A second, and what a busy machine takes.
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[test]
fn while_the_store_is_away_what_stands_in_for_it_is_read_and_a_reset_says_that_it_failed() {
    let mut server = RedisServer::start();
    let gateway = setup(&redis(&server)).start();
    let acme = key_of("acme");
    (0..4).for_each(|_| drop(gateway.get_as(&acme, "/x")));
    server.kill();
    wait_until("the store is given up on", || {
        gateway.get_as(&acme, "/x");
        gateway.metric("sluicegate_store_breaker_open", &[]) == 1.0
    });
    assert_eq!(gateway.get_as(&acme, "/x").status, 429);
    let shown = show(&gateway, "consumer=acme");
    assert!(shown["limits"].as_array().unwrap().iter().all(|line| line["stand_in"] == true), "{shown}");
    let failed = ask(&gateway, "DELETE", "consumer=acme");
    assert_eq!((failed.status, failed.error().as_str()), (503, "limiter_unavailable"));
    assert_eq!(gateway.get_as(&acme, "/x").status, 200, "the stand-in was reset all the same");
    assert!(gateway.log().contains("a reset of counters failed"));
}

#[test]
fn callers_of_one_network_have_one_set_of_counters() {
    let gateway = setup("").start();
    gateway.get_from("2001:db8:1:2::1", "/x");
    let shown = show(&gateway, "ip=2001:db8:1:2:ffff::9");
    assert_eq!(shown["caller"], json!({"ip": "2001:db8:1:2::"}));
    assert_eq!(used(&shown).len(), 5);
    assert!(used(&show(&gateway, "ip=2001:db8:1:3::1")).is_empty());
}

fn command(gateway: &Gateway, arguments: &[&str]) -> Finished {
    let all: Vec<&str> = ["limits"].iter().chain(arguments).copied().collect();
    program::run(gateway.files.directory(), &all)
}

#[test]
fn the_command_shows_and_resets_through_the_admin_port_that_the_file_names() {
    let mut gateway = setup("").start();
    std::fs::write(gateway.files.path("admin.token"), "a-token-of-the-suite").unwrap();
    assert_eq!(gateway.reload(|setup| setup.admin = "token_file = \"admin.token\"".into()), Reload::Success);
    let acme = key_of("acme");
    (0..4).for_each(|_| drop(gateway.get_as(&acme, "/x")));
    let file = ["-c", "sluicegate.toml"];
    let run = |words: &[&str]| command(&gateway, &[&words[..1], &file[..], &words[1..]].concat());

    let shown = run(&["show", "--consumer", "acme"]);
    assert_eq!(shown.code, Some(0), "{}", shown.output());
    assert!(shown.stdout.contains("acme (free), store memory"), "{}", shown.stdout);
    assert!(
        shown.stdout.lines().any(|line| line.contains("rest-hour") && line.contains("0 of 3 left")),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("and 1 of routes, untouched"), "{}", shown.stdout);
    let json = run(&["show", "--key-id", "acme-key", "--json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["caller"]["consumer"], "acme");

    let done = run(&["reset", "--consumer", "acme"]);
    assert_eq!((done.code, gateway.get_as(&acme, "/x").status), (Some(0), 200), "{}", done.output());
    assert!(done.stdout.contains("counters reset"), "{}", done.stdout);
    let tenant = run(&["show", "--ip", "203.0.113.7", "--with", "header:x-tenant=a b"]);
    assert_eq!(tenant.code, Some(0), "{}", tenant.output());

    for (words, code, expected) in [
        (&["show", "--consumer", "nobody"][..], 1, "404: There is no such consumer"),
        (&["show", "--ip", "nowhere"], 1, "ip must be an address"),
        (&["show"], 2, "--consumer"),
        (&["show", "--consumer", "a", "--key-id", "b"], 2, "cannot be used with"),
        (&["forget", "--consumer", "a"], 2, "unrecognized"),
    ] {
        let failed = run(words);
        assert_eq!(failed.code, Some(code), "{words:?}: {}", failed.output());
        assert!(failed.stderr.contains(expected), "{words:?}: {}", failed.stderr);
        assert!(!failed.output().contains("a-token-of-the-suite"));
    }
    gateway.signal("INT");
    gateway.wait_exit(PATIENCE);
    let gone = command(&gateway, &["show", "-c", "sluicegate.toml", "--consumer", "acme"]);
    assert!(gone.code == Some(1) && gone.stderr.contains("no answer from the admin port"), "{}", gone.output());
    let bad = command(&gateway, &["show", "-c", "nothing.toml", "--consumer", "acme"]);
    assert_eq!(bad.code, Some(1), "{}", bad.output());
}
