//! `explain` tells what the gateway does: as a text that is held word for word, and by comparison with the gateway itself.

use crate::support::program::{Finished, run};
use crate::support::*;
use serde_json::Value;

/// Routes, tiers and limits of every kind that is told.
const POLICY: &str = r#"
[tiers.free]
limits = [{ rate = "60/min" }]
[tiers.pro]
limits = [
  { name = "burst", algorithm = "token_bucket", rate = "600/min", burst = 100 },
  { name = "tried", rate = "10/s", mode = "shadow" },
]

[[routes]]
match = "POST /api/export"
cost = 5
auth = "required"
tiers = ["pro"]
limits = [{ rate = "10/min" }]
[[routes]]
match = ["GET /api/users/:id", "/u/:id"]
name = "users"
host = "api.example.com"
skip = ["key"]
[[routes]]
match = "/api/*rest"
[[routes]]
match = "GET /heavy"
cost = 2000
[[routes]]
match = "GET /open"
auth = "none"
"#;

fn setup() -> Setup {
    let ip = "deny = [\"198.51.100.0/24\"]\nexempt = [\"192.0.2.0/24\"]\nlimits = [{ name = \"per-ip\", rate = \"1000/min\" }]\n";
    let old =
        keys::consumer_with("old", "pro", "", &keys::key("old-1", &key_of("old"), "expires = 2020-01-01T00:00:00Z"));
    let own =
        keys::consumer_with("narrow", "pro", "", &keys::key("narrow-1", &key_of("narrow"), "routes = [\"GET *\"]"));
    Setup::new(POLICY)
        .trusted()
        .client_ip(ip)
        .keys(&(consumer("acme", "pro") + &consumer("hobby", "free") + &old + &own))
}

fn explain(arguments: &[&str]) -> Finished {
    let files = setup().files();
    run(files.directory(), &[&["explain", "-c", "sluicegate.toml"][..], arguments].concat())
}

#[track_caller]
fn assert_told(arguments: &[&str], expected: &str) {
    let told = explain(arguments);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{}", told.output());
    assert_eq!(told.stdout, expected.trim_start_matches('\n'), "{arguments:?}:\n{}", told.stdout);
}

#[test]
fn a_request_that_goes_on_is_explained_with_every_limit() {
    assert_told(
        &["POST", "/api//export?x=1", "--key-id", "acme-key", "--ip", "2001:db8::7", "--host", "API.example.com:80"],
        r#"
POST /api//export?x=1

path      /api/export
host      api.example.com
route     "POST /api/export"
          before "/api/*rest": a literal segment beats a parameter
upstream  stub
address   2001:db8::7, counts as 2001:db8::: the other end of the connection
caller    acme, by the key acme-key
tier      pro: the tier of acme
cost      5
draws on  every limit that applies
limits    per-ip (ip): 5 of 1000 requests per minute, sliding_window_counter
            counter sluicegate:{ip:2001:db8::}:_all
          burst (key): 5 of 600 requests per minute (at once 100), token_bucket
            counter sluicegate:{consumer:acme}:_all
          tried (key): 5 of 10 requests per second, sliding_window_counter, in shadow: refuses nobody
            counter sluicegate:{consumer:acme}:_all
          post-api-export-min (endpoint): 5 of 10 requests per minute, sliding_window_counter
            counter sluicegate:{consumer:acme}:_all:route:POST%20%2Fapi%2Fexport
answer    forwarded: nothing but a spent limit would refuse it
"#,
    );
}

#[test]
fn a_named_host_parameters_and_skipped_layers_are_told() {
    assert_told(
        &["GET", "/api/users/7/", "--host", "api.example.com", "-H", "X-Forwarded-For: 203.0.113.9"],
        r#"
GET /api/users/7/

path      /api/users/7   (upstream: /api/users/7/)
host      api.example.com
route     "users", by its pattern "GET /api/users/:id"
          before "/api/*rest": a named host beats a wider one
          id = 7
          skips the limits of: key
upstream  stub
address   203.0.113.9: what a trusted proxy says
tier      anonymous: there is no key
cost      1
draws on  every limit that applies
limits    per-ip (ip): 1 of 1000 requests per minute, sliding_window_counter
            counter sluicegate:{ip:203.0.113.9}:_all
answer    forwarded: nothing but a spent limit would refuse it
"#,
    );
}

#[test]
fn a_refusal_is_explained_with_what_the_client_is_not_told() {
    assert_told(
        &["POST", "/api/export", "--key-id", "old-1"],
        r#"
POST /api/export

path      /api/export
host      none
route     "POST /api/export"
          before "/api/*rest": a literal segment beats a parameter
upstream  stub
address   127.0.0.1: the other end of the connection
tier      anonymous: the key does not count: expired
cost      5
draws on  the limits of its address, and its budget of wrong keys
limits    per-ip (ip): 1 of 1000 requests per minute, sliding_window_counter
            counter sluicegate:{ip:127.0.0.1}:_all
          auth-failures (ip): 1 of 10 requests per minute, whatever they cost, sliding_window_counter
            counter sluicegate:{ip:127.0.0.1}:_all
answer    401 invalid_api_key: the key is expired; the client is told only that it is not valid
"#,
    );
}

/// What is asked, and the last line of the answer.
const ANSWERS: &[(&[&str], &str)] = &[
    (&["POST", "/api/export"], "401 missing_api_key: the route requires a key, and there is none"),
    (
        &["POST", "/api/export", "--key-id", "hobby-key"],
        "403 forbidden: the caller is of the tier free; the route is for pro",
    ),
    (
        &["POST", "/api/export", "--key-id", "narrow-1"],
        "403 forbidden: the key may not be used for this route, or not from this address",
    ),
    (&["GET", "/api/x", "--ip", "198.51.100.7"], "403 forbidden: 198.51.100.7 is in `deny` of [client_ip]"),
    (&["GET", "/api/%2fx"], "400 bad_request: The path holds an encoded slash."),
    (&["GET", "/nowhere"], "404 route_not_found: no route takes this path, and there is no route \"*\""),
    (&["POST", "/heavy"], "404 route_not_found: no route takes this method and host; the path is taken by GET /heavy"),
    (
        &["GET", "/u/1"],
        "404 route_not_found: no route takes this method and host; the path is taken by /u/:id on api.example.com",
    ),
    (&["GET", "/heavy"], "429 cost_exceeds_limit: the cost is more than the limit \"per-ip\" can ever hold, 1000"),
    (&["GET", "/heavy", "--ip", "192.0.2.1"], "forwarded: nothing but a spent limit would refuse it"),
    (&["GET", "/open", "--key-id", "old-1"], "forwarded: nothing but a spent limit would refuse it"),
];

#[test]
fn every_kind_of_answer_has_its_reason() {
    let files = setup().files();
    for (arguments, answer) in ANSWERS {
        let told = run(files.directory(), &[&["explain", "-c", "sluicegate.toml"][..], arguments].concat());
        let last = told.stdout.lines().last().unwrap_or_default();
        assert_eq!(
            (told.code, last),
            (Some(0), format!("answer    {answer}").as_str()),
            "{arguments:?}:\n{}",
            told.output()
        );
    }
}

#[test]
fn explain_and_the_gateway_answer_alike() {
    let gateway = setup().start();
    let asks: [(&str, &str, Option<&str>, &str); 9] = [
        ("POST", "/api/export", Some("acme"), "203.0.113.7"),
        ("POST", "/api/export", Some("hobby"), "203.0.113.7"),
        ("POST", "/api/export", Some("old"), "203.0.113.7"),
        ("POST", "/api/export", None, "203.0.113.7"),
        ("GET", "/api/../heavy", None, "203.0.113.7"),
        ("GET", "/api/x", None, "198.51.100.7"),
        ("GET", "/nowhere", None, "203.0.113.7"),
        ("GET", "/api/a%2fb", None, "203.0.113.7"),
        ("GET", "/open", None, "192.0.2.7"),
    ];
    for (method, target, consumer, from) in asks {
        let key = consumer.map(key_of).map(|key| format!("Bearer {key}"));
        let mut headers = vec![("x-forwarded-for", from)];
        headers.extend(key.as_deref().map(|key| ("authorization", key)));
        let answer = gateway.request(method, target, &headers, b"");
        let id =
            consumer.map(|consumer| if consumer == "old" { "old-1".to_string() } else { format!("{consumer}-key") });
        let forwarded = format!("X-Forwarded-For: {from}");
        let mut arguments =
            vec!["explain", "-c", "sluicegate.toml", method, target, "--json", "-H", &forwarded, "--host", "a.test"];
        arguments.extend(id.iter().flat_map(|id| ["--key-id", id]));
        let told: Value = serde_json::from_str(&run(gateway.files.directory(), &arguments).stdout).unwrap();
        let status = told["answer"]["status"].as_u64().unwrap_or(200);
        assert_eq!(u64::from(answer.status), status, "{method} {target} {consumer:?} {from}: {told:#}");
        let error = answer.json_or_null()["error"].clone();
        assert!(status == 200 || error == told["answer"]["error"], "{error} {told:#}");
    }
}

#[test]
fn explain_as_json_has_the_same_facts() {
    let told = explain(&["POST", "/api/export", "--key-id", "acme-key", "--json"]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&told["route"]["name"], &told["caller"]["consumer"]), (&"POST /api/export".into(), &"acme".into()));
    let limit = serde_json::json!({
        "name": "burst", "layer": "key", "counter": "sluicegate:{consumer:acme}:_all", "cost": 5.0, "algorithm": "token_bucket",
        "quota": "600 requests per minute", "burst": "100", "mode": "enforce"
    });
    assert_eq!((&told["limits"][1], &told["answer"]["refused"]), (&limit, &false.into()));
}

#[test]
fn what_cannot_be_explained_is_said() {
    let unknown = explain(&["GET", "/open", "--key-id", "acme-kye"]);
    assert_eq!(unknown.code, Some(1));
    assert_eq!(unknown.stderr, "sluicegate: no key has the id \"acme-kye\"\n  help: did you mean \"acme-key\"?\n");
    for arguments in
        [&["GET"][..], &["GET", "/", "-H", "no colon"], &["GET", "/", "-H", "a b: c"], &["GET", "/", "--ip", "x"]]
    {
        assert_eq!(explain(arguments).code, Some(2), "{arguments:?}");
    }
    let files = Setup::new("[[routes]]\nmatch = \"*\"\ncots = 1\n").files();
    let bad = run(files.directory(), &["explain", "-c", "sluicegate.toml", "GET", "/"]);
    assert_eq!((bad.code, bad.stdout.as_str(), bad.stderr.contains("did you mean `cost`?")), (Some(1), "", true));
}
